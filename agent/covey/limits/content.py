"""How large content may be, in what portions it travels, and how much of it one device does for others."""

from __future__ import annotations

from covey.limits.units import MIB

MAXIMUM_CONTENT_BYTES = 100 * MIB
"""Of one file, before it is sealed (002.33, F-017)."""

CHUNK_BYTES = 64 * 1024
"""What is verified, and kept, at once."""

DISK_WAIT_US = 2_000
"""How long a chunk that a link brings waits for the one before it to be on the disk. So a power cut has at most one
fetched twice where the disk takes one in that time, however quick the link is, and with a slower disk where the link
brings none in what it takes longer; a relay on a machine that is busy is not held up by more than this."""

NEAR_SYNC_US = 250
"""Between two times that what a peer of the network gives begins to be brought to the disk: half of what a gigabit
takes for a chunk, so there each one has its own. What is quicker would spend more on that than on all else."""

NEAR_DISK_WAIT_US = 100
"""How long a peer's chunk waits until earlier ones are on disk: on a gigabit, a power cut repeats one if the disk
writes one in 0.6 ms; slower disks lose little, because later chunks no longer wait."""

SYNC_SHARE = 2
"""Multiple of the last sync's duration before the next sync of a network peer's chunks, if more arrives than the disk
writes: so syncs take a third of the time at most, and the network continues."""

SYNC_GROUP_BYTES = 4 * MIB
"""The most that comes before what came before it is on the disk: a power cut has at most twice that fetched twice, from
the quickest network."""

OFFER_WAIT_SECONDS = 20.0
"""How long a command waits for the history that offers a file: a member that is there brings it in some seconds also
over a bad link, and a mistyped name should not cost a person more."""

MAXIMUM_FILE_NAME_BYTES = 255
"""The longest name that file systems take."""

CONTENT_PULL_BYTES = 4 * MIB
"""The most that is asked for at once. How much it is, the time decides that a portion takes."""

FIRST_PULL_BYTES = 4 * CHUNK_BYTES
"""What a holder is asked for first."""

QUICK_PULL_US = 400_000
"""A portion that comes in less is followed by one twice as large."""

SLOW_PULL_US = 1_600_000
"""A portion that takes longer is followed by one half as large, down to a chunk: other messages to this device wait
behind it in the relay."""

CONTENT_PULL_US = 20_000_000
"""How long a holder may say nothing before another one is asked."""

CHUNK_PATIENCE_US = 300_000_000
"""How long a holder may take for one chunk, whatever it says meanwhile: 220 bytes a second, less than any link."""

FETCH_REST_US = 300_000_000
"""The longest pause before members are asked again that lacked the file, did not answer, or gave something else; the
first pause is `CONTENT_PULL_US`."""

HOLDERS_TRIED = 8
"""Members that are asked one after the other before a fetch pauses; later it continues with others."""

FETCHES_AT_ONCE = 2
"""Files that are fetched at the same time; others wait."""

SECRETS_AT_ONCE = 16
"""Files by which the secrets of earlier epochs are asked for at the same time: one that nobody has pinned is asked for
in vain, and holds up no other one."""

PARTS_AT_ONCE = 8
"""Parts that a turn of the agent gives to a relay, after all else that waits: what is measured comes first."""

SERVED_MEMBERS = 64
"""Members that are served at the same time; one more asks again later."""

PARTS_PER_SECOND = 16
"""Parts that one member is given in a second for ever, a megabyte: all that one which keeps asking can cost a link."""

PARTS_SAVED = 8_192
"""What a member that asked for nothing can save up of these: five files of the largest size, as fast as a relay takes
them."""

CONTENT_EXPIRY_S = 30
"""How long a relay keeps what is asked for and given: then it is asked for again."""

LAN_CLIENTS = 32
"""Peers that are given files at the same time, a thread each; one more is turned away, and asks elsewhere. As many
connections may have asked for nothing yet."""

REFETCH_US = 3_600_000_000
"""How often one file is fetched again that the disk has changed: a failing disk would have it fetched for ever."""

OFFERED_WITHIN_US = 86_400_000_000
"""A file that was made for a release and not offered after so long is deleted at the next start: a power cut or a kill
ended the command. Sealing 128 files of 100 MiB takes less than an hour."""

GIVEN_CHUNKS = 16
"""Of a file on its way, that are verified and then given in one answer: what a peer asks for next has come by then."""

LAN_SILENCE_S = 10.0
"""How long a peer may take for a chunk, on either side, before its connection is closed."""

LAN_READ_BYTES = 4 * CHUNK_BYTES
"""Of an answer that are taken at once: more of a connection is hardly ever there, and it is memory."""

LAN_SECONDS = 600.0
"""The longest that one connection is served: a hundred megabytes at 1.4 Mbit/s."""

LAN_FOUND_US = 5_000_000
"""After a start, within which it is not said yet that this network has no peers: they answer within a second or two."""

NEAR_LOOK_US = 1_500_000
"""The least time for which peers are looked at before members are asked at a relay: another one that has begun to ask
there is seen in it, by two looks."""

NEAR_LOOK_SPREAD_US = 2_500_000
"""And up to so much more, by device and file: so that of ten that begin at once one is through before the others."""

LAN_PEERS = 32
"""Peers of this network that are known at the same time."""

LAN_ROUND_US = 20_000_000
"""The longest that places nearby are asked without one of them giving anything; then members at a relay are."""

NEAR_REST_US = 60_000_000
"""Before places nearby are looked at again for a file that none of them had; until then members give it."""

STORED_PART_BYTES = 16 * CHUNK_BYTES
"""Of a file in an object store: a part is in memory where it is put, and a request costs as much as a megabyte."""

PATCHED_BYTES = 32 * MIB
"""Of a file that patches are made of, or from: a command holds both versions and what it looks back at in memory."""

PATCH_SHARE = 0.8
"""Of the whole that a patch may have: one that saves less is not worth a second file."""

PATCH_HASH_DIGITS = 32
"""Of each hash in a patch's name: enough that no other file is meant by it."""

MAXIMUM_HOLDERS = 1_024
"""Members of which it is remembered that they have a file: as many as a group has."""

CONTENT_FREE_BYTES = 64 * MIB
"""What stays free of the disk: a file that would take it is refused, and the outbox has its room."""
