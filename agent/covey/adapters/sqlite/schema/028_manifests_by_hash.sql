-- A manifest is asked for by its hash, and early ones by their state: neither reads through a group's whole chain.
CREATE INDEX group_manifest_hash ON group_manifest (group_id, hash);
CREATE INDEX group_manifest_state ON group_manifest (group_id, state);
