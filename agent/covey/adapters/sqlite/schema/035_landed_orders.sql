-- How far a collector has put the orders of each group's history into its landing, by their arrival. What is lost of
-- this is landed again, and is in the tables once.
CREATE TABLE landed_orders (
    group_id        BLOB    PRIMARY KEY,
    arrival         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
