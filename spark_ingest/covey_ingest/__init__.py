"""From the vault to tables: what verifies, decodes, writes and commits, and the two engines that drive it.

1. A *task* (`tasks`) turns ranges of vaults into verified, decoded, written files, and describes them. The *committer*
   (`tables`) turns the results of tasks into one commit. Both are functions of Arrow batches and know no engine.
2. `local_engine` runs tasks in worker processes; `spark_engine` runs them in Spark's executors. `source`,
   `table_source`, `session`, `spark_engine` and `unserved` alone import pyspark.
3. A micro-batch is committed by one entry in the log of `readings`. What is not in a log does not count, and what a
   failed commit leaves behind is thrown away and read again from the vault.
4. Whatever is in a vault, the answer is rows: readings where all is right, `quarantine` where anything is not.
5. Of the agent it uses the core, and how vaults are reached and files replaced (`covey.adapters.objects`, `.files`).

To be read in this order. What is read: `options`, `offsets`, `repairs`, `planning`. What a task does: `reading`,
`rows`, `decode`, `time_quality` and `schema` make message rows, as far as `pruning` wants them; `columns` lists what
`readings` has, `exploding` makes these rows, `others` what is no reading, `writing` writes it all. What the committer
does: `tables`, with `dedup`, `gaps` (`gaps_sql`, `forgotten`), `clocks`, `devices`, `members`, `seen_orders` and
`rollups`, each of which follows from committed rows; `tables_log` and `delta_log` keep the logs (`clustering`,
`clock_repair`), `tables_state` what was computed, `table_locations` says where it all lies. `progress` and `metrics`
tell of it. `views`, `querying`, `report` and `exporting` read the tables, and `deleting` takes rows out of them, which
`deletions` keeps out from then on.
"""
