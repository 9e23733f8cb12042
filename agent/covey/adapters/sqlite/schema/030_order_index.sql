-- What follows what among the operations that bear on orders (adapters/sqlite/order_index.py). `frontier`: of such
-- operations the last ones that an operation follows (0: none); null: not found yet. `node`: whether it is one that
-- others' frontiers name. `subject`: the key that it sets, or the operation that it approves.
ALTER TABLE operation ADD COLUMN frontier INTEGER;
ALTER TABLE operation ADD COLUMN node INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operation ADD COLUMN subject BLOB;
CREATE INDEX operation_not_indexed ON operation (arrival) WHERE frontier IS NULL;
CREATE INDEX operation_node ON operation (group_id, height, hash) WHERE node;

-- Distinct frontiers: arrivals of operations, ascending, 8 bytes each.
CREATE TABLE order_frontier (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    nodes           BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX order_frontier_by_nodes ON order_frontier (group_id, nodes);
