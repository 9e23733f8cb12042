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

MAXIMUM_SERIES_RULES = 64
"""Rules of `telemetry.series`: each new name is compared with all of them."""

MAXIMUM_SERIES_RULE_BYTES = 256
"""One rule: a name's pattern, a condition and two numbers."""

ALARMS_NOTED = 128
"""Series in alarm that are noted for status and for the next process: the note is written with each alarm."""

MAXIMUM_ALARM_SERIES = 1_024
"""Series of one device whose readings are judged: as many as a batch may have; each is some 400 bytes of memory."""

ALARMS_PER_HOUR = 12
"""Alarms that one series raises in an hour: each is a message and a commit of its own, and a person reads it."""

PUBLISH_BATCHES = 32
"""Full batches that share one commit: one sync for all of them, and little that a power cut can take."""

MAXIMUM_SUMMARY_WINDOWS = 4_096
"""Windows of all series in one summary: with eight columns of at most 8 bytes each, 288 KiB before compression."""

MAXIMUM_WINDOW_READINGS = 2**32 - 1
"""Readings in one window of a summary: 1,600 a second for a month. So a DECIMAL(38, 9) in a table holds any sum."""

MAXIMUM_WINDOW_US = 31 * 86_400_000_000
"""The widest window of a summary. A device has none wider than a day; a month leaves room for others."""

WINDOWS_US = (60_000_000, 300_000_000, 3_600_000_000, 86_400_000_000)
"""The windows to which a full outbox thins, one after the other: a minute, five, an hour, a day."""

SUMMARY_WINDOWS = 1_024
"""Windows of a summary before the next one begins: some 8 KiB of slow sensors (measured: 7 bytes a window), 80 KiB of
noise, which every relay takes; a Pi makes one in a tenth of a second."""

MAXIMUM_RECEIPT_BYTES = 2 * KIB
"""A receipt of one reading: it fits in a QR code of 2,953 bytes, and an e-mail or a form field takes it."""

MAXIMUM_INVENTORY_BYTES = 64 * KIB
"""The deflated list of a device's packages: 900 packages take 8 KiB, so ten thousand fit, and a hub keeps one of each
device."""

MAXIMUM_INVENTORY_TEXT_BYTES = MIB
"""The same, inflated: 26 bytes for each package."""

PACKAGES_LOOK_US = 600_000_000
"""Between two looks whether the list of installed packages has changed: one `stat`."""

PACKAGES_REPEATED_US = 30 * 86_400_000_000
"""After so long an unchanged list is sent once more: a hub that was restored from a backup may lack it."""
