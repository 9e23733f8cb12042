"""From the vault to tables: verify, decode, write and commit, and the two engines that drive it.

1. A *task* (`task/`) turns ranges of vaults into verified, decoded, written files, and describes them. The *committer*
   (`committer/`) turns the results of tasks into one commit. Both are functions of Arrow batches, independent of the
   engine.
2. `local_engine` runs tasks in worker processes; `spark/spark_engine` runs them in Spark's executors. Only `spark/`
   imports PySpark.
3. A micro-batch is committed by one entry in the log of `readings`. Files outside the log do not count. What a failed
   commit leaves behind is discarded and read again from the vault.
4. Whatever is in a vault, the result is rows: readings if all is right, `quarantine` otherwise.
5. Of the agent it uses the core, and its access to vaults and files (`covey.adapters.objects`, `.files`).

Read `options.py` (which vaults, and how), `vault/` (what is read next), `task/`, `committer/`, and `tables/`, which has
a module for each table or state of a commit. `progress.py` and `metrics.py` report on it. `queries/` reads the tables.
"""
