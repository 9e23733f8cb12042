-- An earlier Covey goes on with it.
-- Which commands are waves of a release: what has become of these every operator is told.
ALTER TABLE command ADD COLUMN in_waves INTEGER NOT NULL DEFAULT 0;
