-- How many operations of the group were here when a member was heard last: what has come since, from whomever, is not
-- fetched from it any more.
ALTER TABLE catching_up ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
UPDATE catching_up SET held = (
    SELECT coalesce(sum(last), 0) FROM operation_log WHERE operation_log.group_id = catching_up.group_id
);
