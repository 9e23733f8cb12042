"""From the vault to tables: what verifies, decodes, writes and commits, and the two engines that drive it.

1. A *task* (`task/`) turns ranges of vaults into verified, decoded, written files, and describes them. The *committer*
   (`committer/`) turns the results of tasks into one commit. Both are functions of Arrow batches and know no engine.
2. `local_engine` runs tasks in worker processes; `spark/spark_engine` runs them in Spark's executors. Only `spark/`
   imports PySpark.
3. A micro-batch is committed by one entry in the log of `readings`. What is not in a log does not count. What a failed
   commit leaves behind is thrown away and read again from the vault.
4. Whatever is in a vault, the answer is rows: readings where all is right, `quarantine` where anything is not.
5. Of the agent it uses the core, and how it reaches vaults and replaces files (`covey.adapters.objects`, `.files`).

Read in this order: `options.py` (which vaults, and how), `vault/` (what is read next), `task/`, `committer/`, and
`tables/`, which has a module for each table or state that a commit keeps. `progress.py` and `metrics.py` tell of it.
`queries/` reads the tables.
"""
