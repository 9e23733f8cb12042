-- How long this device has waited since what remains of a group's history was offered, by the time that it runs instead
-- of by a clock that may be set: what waited by the clock of before begins anew.
DROP TABLE graph_offer;
CREATE TABLE graph_offer (
    group_id        BLOB    NOT NULL PRIMARY KEY,
    since_given     INTEGER,                        -- since it was given operations last, in microseconds of running;
                                                    -- null: it was given some since the last offer
    whole           INTEGER NOT NULL                -- in all
) STRICT, WITHOUT ROWID;
