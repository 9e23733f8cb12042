-- Since when a group is being destroyed, in the time that agents have run on this state: a clock that is set years ahead
-- ended it before anybody had heard of it. What is under way begins its day anew.
ALTER TABLE revocation RENAME COLUMN noted_at TO aged;
UPDATE revocation SET aged = (SELECT aged FROM device);
