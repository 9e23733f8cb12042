"""The vault: segments, manifests, ranges."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

MAXIMUM_SEGMENT_BYTES = 32 * MIB
"""A segment as stored, and what is packed in one: what an executor holds in memory several times."""

SEGMENT_BYTES = 4 * MIB
"""Size at which a collector closes a segment."""

SEGMENT_US = 2_000_000
"""Age at which a collector closes a segment: bounds the latency to the tables and the sender's wait."""

LANDED_MANIFEST_US = 600_000_000
"""Between two manifests of one group that a collector lands: each may list 1,000 members in 256 KiB, and a thousand
that join one by one make a thousand."""

RECALLED_BYTES = 16 * SEGMENT_BYTES
"""What a collector without its database reads of its vault before it begins: some seconds of a Pi; more messages than
there are imprints of a link."""

RESTORED_POSITIONS = 1_000_000_000
"""Positions that a collector with a restored state leaves free: three years of ten segments a second, the most that
`vault.segment_seconds` makes. They cost one object, whatever their number."""

MAXIMUM_SEGMENT_RECORDS = 20_000
"""Messages in one segment: small ones reach this before the segment is full in bytes."""

MAXIMUM_SEGMENT_PARTS = 1_000
"""Positions that one merged segment covers; with the records, the CBOR items of a structure."""

MAXIMUM_VAULT_MANIFEST_BYTES = 8 * MIB
"""A vault manifest as stored."""

MAXIMUM_VAULT_SEGMENTS = 10_000
"""Segments that a vault manifest lists one by one, or that one range names."""

MAXIMUM_VAULT_RANGES = 100_000
"""Ranges in one vault manifest: a hundred million segments, and what fits into its bytes."""

MAXIMUM_VAULT_TOMBSTONES = 1_000
"""Tombstones in one vault manifest: a million replaced segments that still wait for their deletion."""

MAXIMUM_VAULT_ERASURES = 1_000
"""Devices whose data was erased from a node's part of a vault, and the one retention: 110 bytes each, in a manifest
that is written every few seconds."""

MAXIMUM_ERASED_RANGES = 100_000
"""Ranges of numbers that a thinned segment says were erased: five for each of 20,000 devices; three CBOR items each."""

MAXIMUM_VAULT_ITEMS = 880_000
"""CBOR items of a vault manifest, range or tombstone: eight for each segment and range that its bounds allow."""

VAULT_RANGE_SEGMENTS = 1_000
"""Segments of a range. A node folds its oldest ones when it lists twice as many (004.11)."""

MANIFEST_KEPT_EACH = 64
"""A collector copies its manifest after so many segments: it reads these again where the manifest is torn."""

VAULT_LOOK_US = 5_000_000
"""Between two looks at a vault in a folder, whether its segments are whole (`app/telemetry/mending.py`)."""

VAULT_LOOK_BYTES = 2 * MIB
"""What one such look reads at most: half of it of the newest segments, half of the others; an SD card reads 2 MiB in
0.1 s."""

VAULT_LOOK_FILE_BYTES = 16 * KIB
"""What a look counts for a smaller file: opening it takes as long as reading so much."""

VAULT_NEWEST_BYTES = 12 * MIB
"""The newest segments, which are looked at in turn."""

VAULT_NEWEST_LOOKS = 11
"""So many looks go once through the newest segments: all of them are looked at within a minute."""

MAXIMUM_DAMAGED_RANGES = 1_000
"""Ranges of damaged segments that a collector remembers; more at once are another disk, and handled bit by bit."""

MAXIMUM_VAULT_KEYS = 30_000
"""Keys of one node: at one for each `VAULT_ROTATION_US` of removals without end, ten days of them."""

MAXIMUM_VAULT_READERS = 2_000
"""Readers that one node's keys are sealed for: the members of a few large groups, and some ingests."""

MAXIMUM_KEY_FILE_BYTES = 4 * MIB
"""`vault.key`: some 120 bytes for each key."""

MAXIMUM_KEY_OBJECT_BYTES = 2 * MIB
"""A node's keys and seals, as stored: 44 bytes for each key, 60 for each reader."""

MAXIMUM_KEY_OBJECT_ITEMS = 3 * MAXIMUM_VAULT_KEYS + 1
"""CBOR items of a node's list of keys."""

VAULT_ROTATION_US = 30_000_000
"""Least time between two rotations of a running collector, which lands nothing while the next one is due: a member that
adds and removes devices again and again fills neither the key file nor the disk."""

MAXIMUM_LOOK_BYTES = 64 * MIB
"""Segments that one look at a fleet's newest readings opens, as stored: seconds of work on a Pi."""

MAXIMUM_LOOK_MESSAGES = 10_000
"""Telemetry that one look opens; beyond that only of devices that it has not met, the newest of each.
A second of work; of forty gateways with a message a minute all that they say in four hours."""

FLEET_KEPT_DEVICES = 2_000
"""From so many members of its groups on an agent keeps a table of its fleet: of fewer, a command finds all within a
second, and an SD card is spared."""

MAXIMUM_SHOWN_SERIES = 256
"""Series of one device whose last values are shown: a page of them is read by a person."""

MAXIMUM_SHOWN_CHARACTERS = 200
"""Characters of a text that are shown as a last value."""

MAXIMUM_SHOWN_BOOTS = 16
"""Of one device, the last ones: a story has a screen's height, and who restarts all day shows that it does."""

MAXIMUM_UNREADABLE_DEVICES = 1_000
"""Devices whose unreadable readings are counted by device: eight are named, and a vault that a hostile collector fills
may hold any number of authors."""

MAXIMUM_SHOWN_LOSSES = 1_000
"""Records of loss of one device that are counted in one look."""

SHOWN_POINTS = 240
"""Points of a series that are drawn: more than a line across a telephone shows."""
