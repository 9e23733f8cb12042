-- How many commits this state has had, as the file beside it says as well; and which state that file speaks of.
ALTER TABLE device ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN lineage BLOB;
