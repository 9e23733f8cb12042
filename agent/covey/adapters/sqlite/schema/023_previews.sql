-- What an invitation to a further group shows of it: CBOR, as its inviter sent it.

ALTER TABLE group_request ADD COLUMN preview BLOB;
