"""Telemetry: batches and their content."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

MAXIMUM_NAME_BYTES = 128
"""A reading's full name, base name included (SenML leaves it open; tables want a bound)."""

MAXIMUM_UNIT_BYTES = 32
"""A unit; the longest one registered has 12 bytes."""

MAXIMUM_TEXT_VALUE_BYTES = 4 * KIB
"""A text or data value; more than that is content, not a reading."""

MAXIMUM_PUBLISH_BYTES = 2 * MIB
"""SenML in one request to an agent, which parses one at a time: JSON takes 25 times its bytes of memory, CBOR up to 64
times (measured), and the unit's memory is bounded."""

MAXIMUM_BATCH_READINGS = 16_000
"""Readings in one batch: where Spark's throughput is flat (measured)."""

MAXIMUM_BATCH_SERIES = 1_024
"""Different names in one batch."""

MAXIMUM_BATCH_BYTES = 512 * KIB
"""A batch before compression; what a reader may have to inflate for one message."""

PUBLISH_BATCHES = 32
"""Full batches that share one commit: one sync for all of them, and little that a power cut can take."""
