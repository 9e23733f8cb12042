-- An earlier Covey goes on with it.
-- How far each sensor has come that can go back: what of its source is in the outbox, committed with these readings.
CREATE TABLE sensor_position (
    name     TEXT PRIMARY KEY,
    position BLOB NOT NULL
) STRICT, WITHOUT ROWID;
