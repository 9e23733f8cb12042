"""Every bound, with its unit and its reason. Nothing else in Covey invents a limit of its own.

`docs/protocol.md` lists the ones that a second implementation must share; a test holds the two together.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

# Messages and envelopes
MAXIMUM_MESSAGE_BYTES = 1_000_000
"""A signed message; checked before parsing (002.37). Large content travels by reference instead."""

MESSAGE_OVERHEAD_BYTES = 300
"""What a message adds to its body at most: header, signature, framing. A whole loss record fits as well."""

MAXIMUM_ENVELOPE_BYTES = 1_150_000
"""A message of the largest size after padding (at most 12 %) and sealing; the broker's own bound lies above it."""

MAXIMUM_BOARD_MESSAGE_BYTES = 4 * KIB
"""A board's envelope, in either direction: it must fit the board's heap several times over."""

BOARD_ENVELOPES_WAITING = 64
"""Envelopes kept in memory for boards of this machine: acknowledgements, which their senders tell again."""

MAXIMUM_BLOB_BYTES = 900_000
"""What one `send` carries: leaves room in a message for header, signature and the vault's framing."""

MAXIMUM_CBOR_DEPTH = 8
"""Nesting of any wire structure; the deepest of ours is 5, and a parser's stack is finite."""

MAXIMUM_CBOR_ITEMS = 65_536
"""Items in one wire structure. The fullest of ours, a segment of 20,000 records, has 60,004; a hostile message of
a million tiny items would cost a Pi seconds before anybody knew who wrote it."""

MAXIMUM_COUNTER = 2**63 - 1
"""Largest sequence, version or time: what SQLite, Spark and every language can hold as a signed integer."""

# Links
LINK_WINDOW_MESSAGES = 1_024
"""Messages in flight to one recipient. A collector answers after landing, a second or more later: enough to keep a link
busy meanwhile, few enough to stay in memory."""

LINK_WINDOW_BYTES = 4 * MIB
"""Bytes in flight to one recipient; at least one message always goes."""

MAXIMUM_SEQUENCE_GAP = 10_000
"""How far ahead of the contiguous run a link sequence may be (002.34): bounds what a receiver remembers."""

MAXIMUM_ACKNOWLEDGED_RANGES = 64
"""Ranges in one acknowledgement. What does not fit is told by the next one, after the first holes closed."""

ACKNOWLEDGE_DELAY_US = 200_000
"""An acknowledgement waits this long for company."""

ACKNOWLEDGE_EVERY_MESSAGES = 20
"""...or for this many messages (measured: 5 % of the sender's CPU)."""

RETRY_US_MIN = 1_000_000
"""Shortest wait for an acknowledgement before a resend."""

RETRY_US_INITIAL = 5_000_000
"""The wait before any round trip was measured: a collector answers only after landing."""

RETRY_US_MAX = 300_000_000
"""Longest wait: a recipient that comes back hears from us within five minutes even if the relay lost all."""

OUTBOX_BYTES = 512 * MIB
"""Default bound of queued messages; months of telemetry on a small card, and configurable."""

OUTBOX_DROP_SHARE = 64
"""A full outbox drops at least this fraction of its bound at a time, so that loss records stay few."""

POISON_TRIES = 5
"""How often a message that the relay calls too large is offered to it before it is set aside."""

INBOX_BYTES = 256 * MIB
"""Messages stored for the application before further ones stay at the relay."""

LANDING_BYTES = 64 * MIB
"""Telemetry that a collector holds while its vault refuses writes, before the relay has to keep it."""

PEER_LINKS = 200_000
"""Links whose state a device remembers: one for each author and incarnation."""

# Groups
MAXIMUM_MEMBERS = 1_000
"""Members of one group: a manifest stays below 200 kB and one fan-out below a second on a Pi."""

MAXIMUM_MANIFEST_BYTES = 256 * KIB
"""A group manifest with 1,000 members, their labels and votes."""

MAXIMUM_OPEN_MANIFESTS = 1_024
"""Versions of a group since the last one that everybody's later ones follow. A group that was split for so many
changes needs a person; every one more is kept in memory, and compared with the others."""

MAXIMUM_EARLY_MANIFESTS = 64
"""Manifests of one group kept for what they follow to come; the rest is asked for again."""

MAXIMUM_REVOKE_BYTES = 64 * KIB
"""A Revoke that names 1,000 members."""

REVOKE_US = 86_400_000_000
"""How long a device that destroys a group tries to tell the others before it forgets."""

RECONCILE_ISSUER_US = (2_000_000, 15_000_000)
"""An issuer of rivals waits between these before it ends the conflict: the other one may, and more may come."""

RECONCILE_ANYBODY_US = (30_000_000, 120_000_000)
"""Everybody else waits between these, for the issuers to be back."""

PULL_US = 30_000_000
"""Between two requests for the same missing manifests."""

MAXIMUM_BUNDLE_BYTES = 768 * KIB
"""Manifests in one message, oldest first; what does not fit is asked for."""

MAXIMUM_LABEL_BYTES = 64
"""A member's label in UTF-8 (002.30)."""

MAXIMUM_CAPABILITIES = 8
"""Capabilities of one member."""

MAXIMUM_CAPABILITY_BYTES = 32
"""One capability's name in UTF-8."""

MAXIMUM_GROUPS = 64
"""Groups that one device belongs to."""

INVITE_US = 600_000_000
"""Life of an invite: ten minutes, as long as two people need to stand beside each other."""

MAXIMUM_INVITE_BYTES = 1_024
"""An invite inside its URI; a QR code still holds it."""

MAXIMUM_RELAY_URL_BYTES = 512
"""The relay's URL in an invite."""

MAXIMUM_OPEN_INVITES = 16
"""Invites open at one time on one device."""

# Keys at rest
ARGON2_PASSES = 3
"""Passes of Argon2id for a new passphrase: with the memory below, RFC 9106's second choice, 0.3 s on a Pi 4."""

ARGON2_PASSES_MIN = 2
"""OWASP's floor, with 19 MiB."""

ARGON2_PASSES_MAX = 16
"""A key file that asks for more was made to stop this machine."""

ARGON2_MEMORY_KIB = 64 * 1024
"""Memory of Argon2id for a new passphrase, in KiB: what the smallest Pi has to spare."""

ARGON2_MEMORY_KIB_MIN = 19 * 1024
"""OWASP's floor, with two passes."""

ARGON2_MEMORY_KIB_MAX = 256 * 1024
"""A key file that asks for more was made to stop this machine."""

MAXIMUM_PASSPHRASE_BYTES = 1_024
"""A passphrase: longer than any that a person types."""

# Telemetry
MAXIMUM_NAME_BYTES = 128
"""A reading's full name, base name included (SenML leaves it open; tables want a bound)."""

MAXIMUM_UNIT_BYTES = 32
"""A unit; the longest one registered has 12 bytes."""

MAXIMUM_TEXT_VALUE_BYTES = 4 * KIB
"""A text or data value; more than that is content, not a reading."""

MAXIMUM_BATCH_READINGS = 16_000
"""Readings in one batch: where Spark's throughput is flat (measured)."""

MAXIMUM_BATCH_SERIES = 1_024
"""Different names in one batch."""

MAXIMUM_BATCH_BYTES = 512 * KIB
"""A batch before compression; what a reader may have to inflate for one message."""

PUBLISH_BATCHES = 32
"""Full batches that share one commit: one sync for all of them, and little that a power cut can take."""

# Vault
MAXIMUM_SEGMENT_BYTES = 32 * MIB
"""A segment as stored: what an executor holds in memory several times."""

SEGMENT_BYTES = 4 * MIB
"""Size at which a collector closes a segment."""

SEGMENT_US = 2_000_000
"""Age at which a collector closes a segment: bounds the latency to the tables and the sender's wait."""

MAXIMUM_SEGMENT_RECORDS = 20_000
"""Messages in one segment: small ones reach this before the segment is full in bytes."""

MAXIMUM_VAULT_MANIFEST_BYTES = 8 * MIB
"""A vault manifest as stored."""

MAXIMUM_VAULT_SEGMENTS = 10_000
"""Segments that a vault manifest lists one by one, or that one range names."""

MAXIMUM_VAULT_RANGES = 100_000
"""Ranges in one vault manifest: a hundred million segments, and what fits into its bytes."""

MAXIMUM_VAULT_ITEMS = 880_000
"""CBOR items of a vault manifest or range: eight for each segment and range that its bounds allow."""

VAULT_RANGE_SEGMENTS = 1_000
"""Segments of a range. A node folds its oldest ones when it lists twice as many (004.11)."""

QUARANTINED_MESSAGES = 1_000
"""Authentic messages that could not be used, kept for a person to look at; the oldest go first."""
