-- Invites that were written into files, one for each device of a fleet; and who of these devices waits to be let in
-- together with others.
ALTER TABLE invite ADD COLUMN prepared_for TEXT;            -- what the file's device is to be called; null: no file
ALTER TABLE invite ADD COLUMN request BLOB;                 -- the JOIN's body of the device that waits

-- The file has an account of its own at the relay, which goes when the invite ends.
ALTER TABLE pairing ADD COLUMN prepared INTEGER NOT NULL DEFAULT 0;
