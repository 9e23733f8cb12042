"""What one device stores, and how much of its disk that takes: outbox, inbox, landing, log, quarantine."""

from __future__ import annotations

from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.units import KIB, MIB

OUTBOX_BYTES = 512 * MIB
"""Default bound of queued messages; months of telemetry on a small card, and configurable."""

LINKS_REMEMBERED = 4_096
"""Links, and rows of imprints, that stay in memory from one commit to the next, in some 5 MiB: what a collector has
landed within a second or two is acknowledged without another look at its table."""

OUTBOX_DROP_SHARE = 64
"""A full outbox drops at least this fraction of its bound at a time, so that loss records stay few."""

OUTBOX_ALARM_SHARE = 16
"""By this fraction of its bound alarms may exceed a full outbox: of 64 MiB, some 10,000 alarms."""

THINNED_BYTES = 16 * KIB
"""Messages that a summary replaces at least, as long as there are so many: some fifty batches, whose headers alone are
most of what is saved."""

EXPIRED_AT_ONCE = 1_000
"""Messages that one step of maintenance lets expire: a commit of this size takes a fraction of a second on a Pi."""

EXPIRE_NEXT_US = 1_000_000
"""Before the next such step, where more have expired."""

LOG_BYTES = 1_600 * KIB
"""The write-ahead log before it is folded into the database: small enough for the reserved space."""

RESERVED_BYTES = 2 * MIB
"""Room kept for writes on a full disk: the database grows by its log's content, then the log is empty and may be
written again. With 128 KiB only a dozen acknowledgements fitted (measured)."""

LOOKED_THROUGH_BYTES = 4 * MIB
"""A state database up to here is looked through at every start, in a fraction of a second on a Pi."""

GROUPS_COPY_BYTES = 64 * KIB
"""The second copy of manifests and secrets: a group of some 450 members, rewritten with each change of one."""

HIGH_WATER_RECIPIENTS = 4_096
"""Recipients of whose queues a file says how far they had come: it has 256 KiB then, and is read at each start."""

HIGH_WATER_AHEAD = 2**28
"""Numbers that a database may lack of what that file says: eight years' at one a second. What says more is no good."""

INBOX_BYTES = 256 * MIB
"""Messages stored for the application before further ones stay with their senders."""

INBOX_SHARE_BYTES = INBOX_BYTES // 2 // MAXIMUM_MEMBERS
"""What each of 1,000 senders may have in the inbox however much others have: half of it is for these shares."""

LANDING_BYTES = 64 * MIB
"""Telemetry that a collector holds while its vault refuses writes, before the relay has to keep it."""

LANDED_SPANS_KEPT = 65_536
"""Over which links the messages of the newest segments came, so that a vault restored from a backup lacks nothing in
secret: of 100 devices with a segment each 10 minutes four days, in 4 MB."""

LANDING_SHARE_BYTES = LANDING_BYTES // 2 // MAXIMUM_MEMBERS
"""What each of 1,000 senders may have in the landing however much others have: half of it is for these shares."""

SMALLEST_MESSAGE_BYTES = 128
"""No message takes less: its signature alone has 64 bytes. So many bytes bound how many rows a share has."""

SCARCE_PART = 10
"""A vault's disk is nearly full when less than this part of it is free: a tenth, which other work needs, too."""

SCARCE_LOOK_US = 10_000_000
"""Between two looks at how much is free: at 5 MB/s a tenth of the smallest card lasts for minutes."""

SHARE_SHOWN_US = 600_000_000
"""After a sender's share of the landing was used up, status names it for ten minutes: it tries again more often."""

SCARCE_BYTES_PER_SECOND = 64
"""What one sender may land in a second, for ever, while the vault's disk is nearly full: 5 MB a day, more than an
ordinary device sends, and of 1,000 devices 5 GB..."""

SCARCE_BYTES = 256 * KIB
"""...and at once: some hundred messages of readings."""

EVENTS_KEPT = 1_024
"""Stored events other than operations: years of a group's changes; with `EVENT_MEMBERS` in each of them 8 MiB, which
only a hostile admin causes."""

EVENT_MEMBERS = 64
"""Members that one event names of those who came or went; the group itself lists all."""

WRITES_LOOK_US = 600_000_000
"""Between two looks at how much the agent has written: the kernel counts, so only the display is late."""

FREED_MEMORY_US = 3_600_000_000
"""Between two times that the agent returns freed memory to the kernel: it takes a millisecond."""

FREED_MEMORY_START_US = 5_000_000
"""After so long an agent has started, and returns for the first time what it has freed."""

WRITES_NOTED_BYTES = 512 * KIB
"""Bytes that the agent writes before it notes them: the note costs 8 kB, less than a fiftieth of that."""

SHARED_COMMIT_WAIT_US = 3_000
"""How long a commit waits for callers who shared the last one: less than a card's sync takes."""

SHARED_COMMIT_BYTES = 256 * KIB
"""Content of one shared commit, or a single larger request: a card at 5 MB/s takes a twentieth of a second for it."""

IDEMPOTENCY_KEYS = 4_096
"""Requests whose idempotency keys are kept: at one a second an hour's; clients retry within minutes."""

IDEMPOTENCY_KEY_LENGTH = 128
"""Characters of such a key: a UUID, a path with a number."""

QUARANTINED_MESSAGES = 1_000
"""Authentic messages that could not be used, kept for a person to look at; of more, the oldest of the device with the
most goes."""

MAXIMUM_CONFIGURATION_BYTES = 256 * KIB
"""The copy of a configuration: a hundred sensors and doors are a tenth of that."""
