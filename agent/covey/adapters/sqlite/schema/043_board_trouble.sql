-- What a board on a port said last that went wrong; empty: nothing since it started.
ALTER TABLE board ADD COLUMN trouble TEXT NOT NULL DEFAULT '';
