"""The vault: segments, manifests, ranges."""

from __future__ import annotations

from covey.limits.units import MIB

MAXIMUM_SEGMENT_BYTES = 32 * MIB
"""A segment as stored: what an executor holds in memory several times."""

SEGMENT_BYTES = 4 * MIB
"""Size at which a collector closes a segment."""

SEGMENT_US = 2_000_000
"""Age at which a collector closes a segment: bounds the latency to the tables and the sender's wait."""

MAXIMUM_SEGMENT_RECORDS = 20_000
"""Messages in one segment: small ones reach this before the segment is full in bytes."""

MAXIMUM_SEGMENT_PARTS = 1_000
"""Positions that one merged segment stands for; with the records, the CBOR items of a structure."""

MAXIMUM_VAULT_MANIFEST_BYTES = 8 * MIB
"""A vault manifest as stored."""

MAXIMUM_VAULT_SEGMENTS = 10_000
"""Segments that a vault manifest lists one by one, or that one range names."""

MAXIMUM_VAULT_RANGES = 100_000
"""Ranges in one vault manifest: a hundred million segments, and what fits into its bytes."""

MAXIMUM_VAULT_TOMBSTONES = 1_000
"""Tombstones in one vault manifest: a million replaced segments that still wait for their deletion."""

MAXIMUM_VAULT_ITEMS = 880_000
"""CBOR items of a vault manifest, range or tombstone: eight for each segment and range that its bounds allow."""

VAULT_RANGE_SEGMENTS = 1_000
"""Segments of a range. A node folds its oldest ones when it lists twice as many (004.11)."""
