-- Profiles are nodes as well, of which checkpoints are made: all frontiers are found anew.
DELETE FROM order_frontier;
UPDATE operation SET frontier = NULL, node = 0, subject = NULL;
