-- Numbers of a link that only a resumption has closed: a loss record that names them later is still counted.
CREATE TABLE resumed (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    ranges          TEXT    NOT NULL,               -- JSON: [[first, last], ...], ascending
    digest          BLOB    NOT NULL,
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;
