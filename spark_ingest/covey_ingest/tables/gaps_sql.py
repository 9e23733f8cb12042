"""The SQL behind `gaps`. A range is (low, high]: the numbers above `low`, up to `high`.

1. Inputs are `state` and `standing`, the state and the rows of `gaps` of the affected authors; `said`, when each
   collector had something of an incarnation; `numbers`, numbers that arrived; and `named`, numbers in loss records.
2. `ADD` makes `links` and `spans` of them, a row for each incarnation and for each range of numbers that arrived; it
   can be run with more and more `said` and `numbers`. `BOUND` keeps the remembered incarnations.
3. `JUDGE` makes `found`: missing numbers, ascending in `place` from the newest; those that summaries replace are in one
   row as far as they follow each other. `FORGET` removes those beyond `$ranges`, and `JUDGE` runs once more, as numbers
   of an author's incarnations depend on each other.
4. `ROWS` and `STATE` are the files' new content.
"""

from __future__ import annotations

BEGIN = """
    CREATE TEMP TABLE links AS SELECT author, incarnation, collector, heard_at, floor, forgotten FROM state;
    CREATE TEMP TABLE spans AS
    SELECT author, incarnation, first - 1 AS low, last AS high
    FROM (SELECT author, incarnation, unnest(firsts) AS first, unnest(lasts) AS last FROM state);
    CREATE TEMP TABLE pieces AS FROM spans LIMIT 0;
    CREATE TEMP MACRO joined() AS TABLE
    SELECT author, incarnation, min(low) AS low, max(high) AS high
    FROM (SELECT *, count_if(apart) OVER (PARTITION BY author, incarnation ORDER BY low, high) AS island
          FROM (SELECT *, low > coalesce(max(high) OVER before, -1) AS apart FROM pieces
                WINDOW before AS (PARTITION BY author, incarnation ORDER BY low, high
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)))
    GROUP BY author, incarnation, island;
"""
"""`joined` makes one range of pieces that touch."""

ADD = """
    CREATE OR REPLACE TEMP TABLE links AS
    SELECT author, incarnation, arg_max(collector, (heard_at, place)) AS collector, max(heard_at) AS heard_at,
           max(floor) AS floor, max(forgotten) AS forgotten
    FROM (SELECT *, -1 AS place FROM links
          UNION ALL SELECT author, incarnation, collector, heard_at, 0, 0, place FROM said)
    GROUP BY author, incarnation;
    CREATE OR REPLACE TEMP TABLE pieces AS
    SELECT * FROM spans
    UNION ALL SELECT DISTINCT author, incarnation, batch_number - 1, batch_number FROM numbers WHERE batch_number > 0;
    CREATE OR REPLACE TEMP TABLE spans AS FROM joined();
"""

BOUND = """
    CREATE OR REPLACE TEMP TABLE dropped AS
    SELECT author, incarnation FROM links
    QUALIFY row_number() OVER (PARTITION BY author ORDER BY heard_at DESC, incarnation DESC) > $incarnations;
    DELETE FROM links WHERE (author, incarnation) IN (FROM dropped);
    DELETE FROM spans WHERE (author, incarnation) IN (FROM dropped);
"""

JUDGE = """
    CREATE OR REPLACE TEMP TABLE found AS
    WITH edges AS (
        SELECT author, incarnation, floor, coalesce(min(low), 0) AS lowest, coalesce(max(high), 0) AS highest
        FROM links LEFT JOIN spans USING (author, incarnation) GROUP BY ALL),
    bases AS (
        SELECT edges.author, edges.incarnation, 0 AS low,
               greatest(floor, coalesce(max(least(spans.high, lowest)) FILTER (spans.high > 0), 0)) AS high
        FROM edges LEFT JOIN spans ON spans.author = edges.author AND spans.incarnation != edges.incarnation
                                      AND spans.low < lowest
        GROUP BY edges.author, edges.incarnation, floor),
    reasons AS (
        SELECT author, incarnation, first_number - 1 AS low, last_number AS high, reason FROM named
        UNION ALL SELECT author, incarnation, first - 1, last, reason FROM standing
        WHERE reason IS NOT NULL AND closed_at IS NULL),
    apart AS (
        SELECT author, incarnation, greatest(low, ended) AS low, high, reason
        FROM (SELECT *, coalesce(max(high) OVER (PARTITION BY author, incarnation ORDER BY low, high, reason
                                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS ended
              FROM reasons)
        WHERE greatest(low, ended) < high),
    came AS (SELECT * FROM spans UNION ALL SELECT author, incarnation, low, high FROM bases WHERE high > 0),
    holes AS (
        SELECT author, incarnation, ended AS low, low AS high
        FROM (SELECT *, coalesce(max(high) OVER (PARTITION BY author, incarnation ORDER BY low, high
                                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS ended
              FROM came)
        WHERE ended < low
        UNION ALL
        SELECT author, incarnation, greatest(edges.highest, bases.high), most
        FROM edges JOIN bases USING (author, incarnation)
        JOIN (SELECT author, incarnation, max(high) AS most FROM reasons GROUP BY ALL) USING (author, incarnation)
        WHERE most > greatest(edges.highest, bases.high)),
    pieces AS (
        SELECT apart.author, apart.incarnation, greatest(apart.low, holes.low) AS low,
               least(apart.high, holes.high) AS high, reason
        FROM apart JOIN holes ON apart.author = holes.author AND apart.incarnation = holes.incarnation
                                 AND apart.low < holes.high AND holes.low < apart.high),
    marked AS (
        SELECT *, coalesce(lag(high) OVER before != low OR lag(reason) OVER before != reason
                           OR reason NOT LIKE 'thinned %', true) AS begins
        FROM pieces WINDOW before AS (PARTITION BY author, incarnation ORDER BY low)),
    lost AS (
        SELECT author, incarnation, min(low) AS low, max(high) AS high, reason
        FROM (SELECT *, count_if(begins) OVER (PARTITION BY author, incarnation ORDER BY low) AS island FROM marked)
        GROUP BY author, incarnation, island, reason),
    missing AS (
        SELECT * FROM lost
        UNION ALL
        SELECT author, incarnation, ended, low, NULL
        FROM (SELECT *, coalesce(max(high) OVER (PARTITION BY author, incarnation ORDER BY low, high
                                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS ended
              FROM (SELECT * FROM came UNION ALL SELECT author, incarnation, low, high FROM lost))
        WHERE ended < low)
    SELECT *, row_number() OVER (PARTITION BY author, incarnation ORDER BY low DESC) AS place FROM missing;
"""

FORGET = """
    CREATE OR REPLACE TEMP TABLE old AS
    SELECT author, incarnation, max(high) AS high, sum(high - low)::BIGINT AS lacked FROM found WHERE place > $ranges
    GROUP BY ALL;
    UPDATE links SET floor = old.high, forgotten = forgotten + old.lacked FROM old
    WHERE links.author = old.author AND links.incarnation = old.incarnation;
    CREATE OR REPLACE TEMP TABLE pieces AS
    SELECT * FROM spans UNION ALL SELECT author, incarnation, 0, high FROM old;
    CREATE OR REPLACE TEMP TABLE spans AS FROM joined();
"""

ROWS = """
    WITH arrived AS (SELECT author, max(heard_at) AS now FROM links GROUP BY author),
    before AS (SELECT standing.*, first - 1 AS low, last AS high FROM standing WHERE state != 'forgotten'),
    met AS (
        SELECT found.author, found.incarnation, found.low, found.high, found.reason,
               coalesce(min(before.first_seen_at), any_value(now)) AS first_seen_at, NULL::BIGINT AS closed_at
        FROM found JOIN arrived USING (author)
        LEFT JOIN before ON before.author = found.author AND before.incarnation = found.incarnation
                            AND closed_at IS NULL AND before.low < found.high AND found.low < before.high
        GROUP BY ALL),
    closed AS (
        SELECT author, incarnation, low, high, reason, first_seen_at, ended_at AS closed_at
        FROM (SELECT before.*, coalesce(closed_at, now) AS ended_at
              FROM before JOIN arrived USING (author) JOIN links USING (author, incarnation)
              WHERE closed_at IS NOT NULL OR (low >= floor AND NOT EXISTS (
                  FROM found WHERE found.author = before.author AND found.incarnation = before.incarnation
                                   AND found.place <= $ranges AND found.low < before.high AND before.low < found.high)))
        QUALIFY row_number() OVER (PARTITION BY author, incarnation ORDER BY ended_at DESC, low DESC) <= $closed)
    SELECT author, author[:8] AS device, incarnation, collector, low + 1 AS first, high AS last, high - low AS numbers,
           CASE WHEN closed_at IS NOT NULL THEN 'closed' WHEN reason LIKE 'thinned %' THEN 'thinned'
                WHEN reason IS NOT NULL THEN 'lost' ELSE 'open' END AS state,
           reason, first_seen_at, closed_at
    FROM (FROM met UNION ALL FROM closed) JOIN links USING (author, incarnation)
    UNION ALL
    SELECT author, author[:8], incarnation, collector, 1, floor, forgotten, 'forgotten', NULL, NULL, NULL
    FROM links WHERE forgotten > 0"""

STATE = """
    SELECT author, incarnation, any_value(collector) AS collector, any_value(heard_at) AS heard_at,
           any_value(floor) AS floor, any_value(forgotten) AS forgotten,
           coalesce(list(low + 1 ORDER BY low) FILTER (low IS NOT NULL), []) AS firsts,
           coalesce(list(high ORDER BY low) FILTER (low IS NOT NULL), []) AS lasts
    FROM links LEFT JOIN spans USING (author, incarnation) GROUP BY author, incarnation"""
