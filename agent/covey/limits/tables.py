"""Tables of the ingest."""

from __future__ import annotations

DELETED_AUTHORS = 1_000
"""Devices that may have been deleted from a set of tables: each micro-batch compares its messages with all of them,
which the JVM does by a list in the plan."""

UNSERVED_S_MAX = 600
"""How long a stage of Spark's waits without a task that runs before the ingest ends: others may hold a cluster's cores
for minutes, and who is started again stands behind them once more."""

MAXIMUM_DELETIONS_BYTES = 1024 * 1024
"""Of `deletions.json` in an object store: `DELETED_AUTHORS` take some 90 KB."""

MAXIMUM_LOG_ENTRY_BYTES = 64 * 1024 * 1024
"""Of an entry of a Delta log that is read for the offset in it: some 100 bytes for each collector of the vault."""

TABLES_LOOK_S = 30.0
"""Between two looks of an engine at the files of tables: a damaged log is restored and reported within a minute."""

TABLES_LOOK_BYTES = 6 * 1024 * 1024
"""How much of the newest rows, and of all others in turn, it reads at each: 24 MiB a minute, as of a vault."""
