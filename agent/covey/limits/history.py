"""What a group says: its operations, and how they travel."""

from __future__ import annotations

from covey.limits.units import GIB, KIB, MIB

MAXIMUM_OPERATION_BODY_BYTES = 64 * KIB
"""The body of an operation. What is larger travels by reference."""

MAXIMUM_OPERATION_BYTES = MAXIMUM_OPERATION_BODY_BYTES + KIB
"""A whole operation: 8 parents, a signature and the rest of its fields take some 600 bytes."""

MAXIMUM_PARENTS = 8
"""Operations that one operation follows directly. Where more heads are known, operations that only merge come first."""

MAXIMUM_MIME_BYTES = 127
"""The MIME type of a note (RFC 6838, section 4.2: each of its two names has at most 127 characters, and most far
fewer)."""

MAXIMUM_TITLE_BYTES = 128
"""A group's title in UTF-8: one line of a table or of a phone."""

MAXIMUM_DESCRIPTION_BYTES = 4 * KIB
"""A group's description in UTF-8: a page of text; what is longer is a note."""

MAXIMUM_AVATAR_BYTES = 48 * KIB
"""A group's picture: 256 pixels square; leaves room for title and description in one operation."""

MAXIMUM_URI_BYTES = 2 * KIB
"""Where a session takes place; no browser is sure to take a longer one."""

MAXIMUM_AUTHOR_BYTES = 16 * MIB
"""The operations of one author in one group: its share, which nobody else can use up. A person who writes a note of a
kilobyte every hour gets there in two years. Forgotten operations count too, so devices agree whatever they keep."""

VOID_PART = 64
"""Of what the former members of a family keep of operations that nobody follows, void ones have this part: 256 KiB of
one share, enough to show what was tried."""

OWN_PAST_US = 600_000_000
"""How long a device that was removed and added again writes nothing until a member has sent it what it wrote before:
what it writes then follows that. Ten minutes that its agent runs: a member that has the history answers in seconds, and
perhaps none has it."""

LOGS_OF_ONE = 16
"""Logs of one author's share: each costs an honest device a restored state."""

FORKS_OF_ONE = 2
"""Operations of an author's share under one number: two prove a fork."""

LOGS_BEHIND = 1_024
"""Logs of one author that one operation follows, directly or not: a member that shows each of sixty-four others sixteen
logs of its own does not keep these from following each other."""

BYTES_BEHIND = 32 * MIB
"""The same in bytes, two shares: what one operation can make others keep of an author beyond that author's share."""

FAMILY_BYTES_BEHIND = 128 * MIB
"""The same of a device that the founder has let in, and of all that came in through it, together: eight shares. What
came in through one of those has `BYTES_BEHIND`."""

GROUP_BYTES_BEHIND = GIB
"""The same of a whole group where all members are equal: a mebibyte of each of 1,000 members. Each level has a fraction
of the one above, so hostile members exhaust an honest one's family only where that one has let in several of them."""

REMEMBERED_LINES = 4_096
"""Authors whose sponsors stay known in memory: those of four full groups."""

REMEMBERED_PASTS = 64
"""What operations follow, as summed up for the last ones that were judged while a limit is near: two shares' logs,
twice over. Each takes some kilobytes, and a bit for each operation."""

AWAITED = 1_024
"""Operations that waiting ones name, as remembered while they are fetched: those of sixteen requests."""

AWAITED_BYTES = 64 * MIB
"""Bytes beyond shares that are fetched for one author's waiting operations within `AWAITED_US`."""

AWAITED_US = 600_000_000
"""How long a log beyond its author's share is fetched for an operation that follows it: a slow line brings a share in
that time, or asks again."""

HEADS_AT_ONCE = 64
"""Heads that one written operation joins: its own parents and eight merges. More heads wait for the next operations, so
one note after thousands of heads costs each member some kilobytes."""

BUNDLE_OPERATIONS = 256
"""Operations of one message that are sent, and taken; what does not fit is asked for. A Pi verifies so many in a
twelfth of a second."""

URGENT_HISTORY_BYTES = 16_384
"""The longest message with orders of others that may use what a budget reserves for orders: some dozens of orders."""

BUNDLE_OPERATION_BYTES = 256 * KIB
"""The same in bytes, one operation at least."""

MAXIMUM_LOGS = 16_000
"""Logs that one request for operations names: `LOGS_OF_ONE` of 1,000 members. Where former members have left more, a
request names the longest ones, and the others come again from their beginning."""

LOG_TAG_BYTES = 4
"""Of a log in a request that names logs by tags: of 2,048 logs two have the same one in 1 of 2,000 requests, each time
others, and that costs one longer request, or one more."""

MAXIMUM_WANTED = 64
"""Operations that a request names by their ids, as others follow them."""

ANNOUNCE_US = 2_000_000
"""Between two looks whether a member has acknowledged what it was sent, while more was written since."""

ANNOUNCE_MEMBERS = 1_000
"""For each so many members that do not answer, `ANNOUNCE_US` passes once more between two such looks at all of them."""

ANNOUNCE_PAUSE_US = 100_000
"""Between two looks at members that have acknowledged something: of a thousand members that comes within seconds."""

HISTORY_PULL_US = 15_000_000
"""Between two requests to one member, unless the one before brought something."""

CHECKPOINT_PART_BYTES = 60_000
"""What one operation carries of a checkpoint's state; leaves room for the rest of its body."""

CHECKPOINT_PARTS = 16
"""Operations that one checkpoint takes at most: 1,000 settings fit into two, ten thousand into all of these."""

MAXIMUM_STATE_ENTRIES = 16_384
"""Keys, authors and operators of a checkpoint's state, each: more than its bytes hold of keys that are set."""

FORGOTTEN_AT_ONCE = 128
"""Operations that one transaction forgets: a Pi's card writes their pages in a tenth of a second."""

FORGET_LOOK_US = 3_600_000_000
"""Between two looks whether something may be forgotten, each through all of the history."""

HISTORY_FILE_PART_BYTES = 640 * KIB
"""A part of a history in a file: what one message carries of operations, or of manifests, and one more of them."""

GRAPH_PART = 64
"""Operations of whose places one hash is made: 12 kB, which any relay takes, and 32 bytes of hash for them."""

MAXIMUM_GRAPH_PARTS = 16_384
"""Hashes of one graph: of a million operations, more than sixteen members write in full shares."""

GRAPH_PARTS_AT_ONCE = 16
"""Parts of a graph that one message carries: 1,000 operations, which a Pi stores in a second."""

MAXIMUM_PROOF = 128
"""Operations that prove a checkpoint's signatures: all its parts, and the approvals of more than a hundred."""

GRAPH_WAIT_US = 600_000_000
"""How long a device that lacks what others have forgotten waits for one that has kept it: a round of `HEADS`."""

GRAPH_WAIT_LONGEST_US = 86_400_000_000
"""...and how long in all, while somebody gives it operations now and then: a day, in which an honest keeper brings a
slow line 3 MB at 300 bit/s, and after which no member keeps a newcomer waiting by one operation at a time."""

GRAPH_COUNT_US = 60_000_000
"""How often such a running wait is stored: a restart may lose that much, at one small write a minute."""
