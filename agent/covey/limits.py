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

MAXIMUM_BOARD_BLOB_BYTES = 2 * KIB
"""What one `send` carries to a board: leaves room in its envelope for header, signature and padding."""

BOARD_ENVELOPES_WAITING = 64
"""Envelopes kept in memory for boards of this machine: acknowledgements, which their senders tell again."""

MAXIMUM_BOARD_NUMBERS = 32
"""Numbers in one report of a board: what a person reads, and what its row in the store holds."""

MAXIMUM_SOFTWARE_BYTES = 64
"""A board's own name of its software in UTF-8: a name and a version."""

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

MAXIMUM_LOSS_RANGES = 64
"""Ranges of link sequences, and of telemetry numbers, in one loss record; more are told by another one."""

ACKNOWLEDGE_DELAY_US = 200_000
"""An acknowledgement waits this long for company."""

ACKNOWLEDGE_EVERY_MESSAGES = 20
"""...or for this many messages (measured: 5 % of the sender's CPU)."""

ACKNOWLEDGED_AT_START = 256
"""Links that are acknowledged anew when an agent starts, those heard last: less than a second of a small machine."""

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

DOUBT_US = 86_400_000_000
"""How often one recipient may have a device begin another incarnation. Others remember 1,024 of a device: one hostile
member must not use them up."""

EXPIRED_AT_ONCE = 1_000
"""Messages that one step of maintenance lets expire: a commit of this size takes a fraction of a second on a Pi."""

EXPIRE_AGAIN_US = 1_000_000
"""Before the next such step, where more have expired."""

LOG_BYTES = 1_600 * KIB
"""The write-ahead log before it is folded into the database: small enough for the reserved space."""

RESERVED_BYTES = 2 * MIB
"""Room kept for what must be written on a full disk: the database grows by what its log holds, then the log is empty
and may be written again. With 128 KiB a dozen acknowledgements came through (measured), and no more."""

LOOKED_THROUGH_BYTES = 4 * MIB
"""A state database up to here is looked through at every start, in a fraction of a second on a Pi."""

POISON_TRIES = 5
"""How often a message that the relay calls too large is offered to it before it is set aside."""

INBOX_BYTES = 256 * MIB
"""Messages stored for the application before further ones stay at the relay."""

LANDING_BYTES = 64 * MIB
"""Telemetry that a collector holds while its vault refuses writes, before the relay has to keep it."""

INCARNATIONS = 1_024
"""Incarnations of one author whose links are remembered: a device that lost its state so often is broken or hostile."""

# Relays and presence
MAXIMUM_RELAYS = 8
"""Relays of one device at once: each costs a connection, a thread and a subscription for good."""

WILL_DELAY_US = 60_000_000
"""How long a relay holds a will back: a device that is back by then was not gone. Never longer than the interval."""

COLLECTOR_SILENT_US = 1_800_000_000
"""How long a collector may acknowledge nothing before new telemetry goes to the next one: longer than it restarts."""

COLLECTOR_CHECK_US = 60_000_000
"""Between two looks at the collectors, and at what waits for those that are none any more."""

REDIRECTED_AT_ONCE = 256
"""Messages that one commit moves to another collector: others are not held up for long."""

PRESENCE_BLOCK = 256
"""Counters of presence that are taken from the store at a time: at one beat in five minutes a write a day."""

PRESENCE_WRITE_US = 60_000_000
"""Signs of life of a fleet are written together, once in this time: an SD card has a budget."""

# Link keys
LINK_AFTER_ENVELOPES = 8
"""Sealed envelopes for one device, within the life of a link key, before a key is given to it: that costs a message and
its acknowledgement, which one envelope in eight makes good."""

LINK_KEY_ENVELOPES = 65_536
"""Envelopes under one link key: what one stolen key opens is bounded, and a new one costs next to nothing by then."""

LINK_KEY_US = 3_600_000_000
"""How long a link key is used: an hour, for the same reason."""

LINK_KEYS_KEPT = 4
"""Link keys of one author that its recipient keeps: one in use, its successor, and what a restart or two left."""

LINK_KEY_KEPT_US = 8 * 86_400_000_000
"""How long it keeps one at most: a relay holds envelopes for a week after the last one was written."""

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

DEPARTURE_US = 30 * 86_400_000_000
"""How long a removed device is told of its removal; then it is forgotten, with whatever waits for it."""

VOID_DEVICES = 64
"""Farewells open at a time beyond which no more devices of void manifests are told: the removed may make them up."""

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

JOIN_GRACE_US = 600_000_000
"""How long after its invite's end a join request is still repeated: the inviter's clock may be behind ours."""

JOIN_MEMORY_US = 7 * 86_400_000_000
"""How long after that an answer is still taken: no relay holds one longer."""

ADMISSION_US = 90 * 86_400_000_000
"""How long a device that was added by its keys has to take up its admission: it may lie in a box for a season."""

MAINTENANCE_US = 600_000_000
"""Between two looks at what has waited too long."""

MAXIMUM_INVITE_BYTES = 1_024
"""An invite inside its URI; a QR code still holds it."""

MAXIMUM_RELAY_URL_BYTES = 512
"""The relay's URL in an invite."""

MAXIMUM_OPEN_INVITES = 16
"""Invites open at one time on one device."""

# Pairing
PAIRED_JOIN_US = 3_600_000_000
"""How long a device that was accepted in a ceremony has to come with its own account: a broker that has still to hear
of it, a restart. The invite is bound to its key, so nobody else can use it."""

PAIRING_SILENCE_US = 60_000_000
"""A ceremony whose other side says nothing for so long is over: thirty messages in vain."""

PAIRING_RESEND_US = 2_000_000
"""How often the joiner repeats itself: a broker forgets what nobody listens to."""

RENDEZVOUS_NUMBERS = 9_999
"""Rendezvous of one relay: short to say, and two pairings at a time seldom meet."""

RENDEZVOUS_WAITING = 64
"""Rendezvous messages kept until the next turn; what a crowd says beyond is dropped."""

MAXIMUM_RENDEZVOUS_BYTES = 32 * KIB
"""A message of a ceremony; checked before parsing. The largest carries certificates and a credential."""

MAXIMUM_CERTIFICATES_BYTES = 16 * KIB
"""The PEM text of the authorities that a joiner is to trust at the relay."""

MAXIMUM_CREDENTIAL_BYTES = 8 * KIB
"""A credential for the relay: a password, or a private key with its certificate in PEM."""

GROUP_REQUEST_US = 7 * 86_400_000_000
"""Life of an invitation to a further group: a week for a person to see it. It is bound to one device."""

MAXIMUM_GROUP_REQUESTS = 64
"""Invitations to further groups that wait for a person..."""

MAXIMUM_GROUP_REQUESTS_OF_ONE = 8
"""...and from one member: it must not use up the room of all others."""

# Keys
RETIRED_NOISE_KEYS = 4
"""Noise keys of before rotations that are kept at a time: each may have envelopes on the way to it."""

RETIRED_NOISE_KEY_US_MIN = 3_600_000_000
"""How long a retired noise key is kept at least: longer than an invite that was printed before lives."""

RETIRED_NOISE_KEY_US_MAX = 7 * 86_400_000_000
"""How long it is kept at most, whoever has not heard yet: relays hold envelopes no longer, and senders seal anew."""

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

QUARANTINED_MESSAGES = 1_000
"""Authentic messages that could not be used, kept for a person to look at; the oldest go first."""
