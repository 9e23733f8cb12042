-- The last report of orders that each recipient was sent, of each subject: the id of an order, or nothing where a report
-- says all at once. `place` is the message's in the recipient's queue; 0: the recipient lacks it.
CREATE TABLE sent_report (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    recipient       BLOB    NOT NULL,
    subject         BLOB    NOT NULL,
    digest          BLOB    NOT NULL,
    place           INTEGER NOT NULL,
    UNIQUE (recipient, group_id, subject)
) STRICT;
CREATE INDEX sent_report_place ON sent_report (recipient, place);

INSERT INTO sent_report (group_id, recipient, subject, digest, place)
    SELECT group_id, member, x'', digest, CASE WHEN digest = x'' THEN 0 ELSE place END FROM setting_report_sent;
DROP TABLE setting_report_sent;
