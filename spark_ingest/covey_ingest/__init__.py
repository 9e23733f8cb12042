"""From the vault to tables: a Spark data source that verifies and decodes, and the job that writes each reading once.

1. What an executor runs needs no Spark: it gets positions in a vault and gives Arrow rows. `session`, `source`,
   `tables`, `devices` and `job` alone import pyspark.
2. A micro-batch is committed by renaming what lies whole on the disk; only a file that says the same replaces it.
3. Whatever lies in a vault, the answer is rows: readings where all is right, `quarantine` where anything is not.
4. A file that is replaced after each micro-batch carries the number of the last one in it (`state_file`), so that a
   replay changes nothing.
5. Of the agent it uses the core, and how vaults are reached and files replaced (`covey.adapters.objects`, `.files`).

To be read in this order: `offsets` and `repairs` plan what is read; `reading`, `rows`, `decode`, `time_quality` and
`schema` make rows of it, as far as `pruning` wants them; `source` hands them to Spark. `tables` commits them, without
what `dedup` has found in there already (`committed`: where); `messages`, `gaps` (with `gaps_sql` and `forgotten`),
`clocks`, `rollups`, `devices` and `members` follow.
`merging`, `delta_log` (both by `clustering`), `table_locations` and `publisher` keep, merge and publish the tables'
files. `job` runs it all,
`progress` and `metrics` tell of it; `report` and `views` read the tables without Spark, and `deleting` takes rows out
of them, which `deletions` keeps out from then on.
"""
