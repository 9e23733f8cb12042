"""From the vault to tables: a Spark data source that verifies and decodes, and the job that writes each reading once.

`decode`, `honest_time`, `schema`, `rows`, `offsets`, `object_stores`, `manifest_memory` and `key_file` are pure (numpy
and pyarrow at most) and run on executors; `session`, `source`, `tables`, `job` and `audit` are the only importers of
pyspark.
"""
