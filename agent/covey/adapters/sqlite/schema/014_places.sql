-- A place in a queue is called so; `link_seq` is left to the number on the wire, which begins anew with each incarnation.

ALTER TABLE outbox RENAME COLUMN link_seq TO place;
ALTER TABLE peer RENAME COLUMN next_link_seq TO next_place;

-- Of what this device lands of its own, which no link brings: its place in its recipient's queue.
ALTER TABLE landing ADD COLUMN place INTEGER;
UPDATE landing SET place = link_seq, link_seq = 0 WHERE recipient IS NOT NULL;
