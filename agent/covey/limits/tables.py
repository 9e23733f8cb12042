"""Tables of the ingest."""

from __future__ import annotations

DELETED_AUTHORS = 1_000
"""Devices that may have been deleted from a set of tables: each micro-batch compares its messages with all of them,
which the JVM does by a list in the plan."""
