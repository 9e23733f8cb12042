"""Groups: their manifests, members, votes and departures."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

MAXIMUM_MEMBERS = 1_000
"""Members of one group: a manifest stays below 200 kB and one fan-out below a second on a Pi."""

MAXIMUM_MANIFEST_BYTES = 256 * KIB
"""A group manifest with 1,000 members, their labels and votes."""

SELF_JOINED_MEMBERS = 900
"""Members of a public group beyond which devices can no longer add themselves: the rest of the room is its admins' to
give."""

PUBLIC_JOINS_AT_ONCE = 64
"""Devices that let themselves into public groups, and are taken or answered at once: a classroom, twice."""

PUBLIC_JOIN_US = 60_000_000
"""Between two more of them: one stranger who makes up devices needs most of a day to fill a group, in the sight of its
admins, and each costs everybody a manifest of up to 256 KiB."""

MAXIMUM_LISTED_BYTES = MAXIMUM_MANIFEST_BYTES - KIB
"""A manifest that follows a single one; and what several come to: the hashes of those that one follows still fit."""

RIVALS_OF_ONE = 8
"""Manifests of one issuer none of which follows another. An honest device issues two only where its state was restored;
more are taken where somebody else's follow them."""

RIVALS_REPLACED = 64
"""Of these, how many are replaced by others of their issuer before every member's later versions follow them. Two
devices that get rivals in different orders replace a few dozen until they hold the same; a hostile issuer could
continue forever, and all members would exchange its manifests."""

MAXIMUM_OPEN_MANIFESTS = 512
"""Versions of a group since the last one that everybody's later ones follow, beyond which only what removes somebody or
follows several is taken: each is kept in memory, and compared with the others."""

MAXIMUM_OPEN_BYTES = 4 * MIB
"""The same in bytes; in memory a manifest takes some ten times its length."""

MANIFEST_PAGE_BYTES = 4 * KIB
"""What one page of an allowance pays for: a manifest of some 40 members."""

FOUNDER_ALLOWANCE = 536_870_912
"""Pages of manifests that a group's founder can issue or give away, 2 TiB: enough to let in a thousand devices with
`MEMBER_ALLOWANCE` or little less each. No member's allowance is higher."""

MEMBER_ALLOWANCE = 262_144
"""Pages of manifests that a member gives to a device that it lets in, at most: 1 GiB. A hub that the founder let in can
let in 900 devices, one after the other, and still give each 256 pages."""

ALLOWANCE_PART = 1_024
"""A member gives this part of its own allowance to a device that it lets in, at most..."""

LEAST_ALLOWANCE = 256
"""...or so many pages, if these are not more than a quarter of what it has: 1 MiB, for twenty years of new noise keys
among 40 members, and one in 1,000 members changes its key five times. So what a stolen gateway makes others keep is a
MiB where a hub let it in."""

STRANGER_ALLOWANCE = 256
"""Pages of manifests of a device that let itself into a public group: for twenty years of new noise keys among 40."""

RESERVED_REMOVALS = 4
"""Of its allowance a member can use enough for four removals, as long as the manifest that it issues, for nothing but
removals: it can always remove a hostile member."""

RESERVED_PAGES = 16
"""...and so many pages more: others may lengthen its list in the meantime by bans, labels and capabilities."""

ENDING_ALLOWANCE = 128
"""Pages below which a device leaves the end of a conflict to others, unless it has another change to make: a hostile
member that begins conflicts does not use up its allowance."""

MAXIMUM_HEADS = 16
"""Manifests that none follows, beyond which a group is in conflict, even if they all list the same: one that follows
several names so many at most."""

MAXIMUM_EARLY_MANIFESTS = 64
"""Manifests of one group kept for what they follow to come; the rest is asked for again."""

MAXIMUM_EARLY_BYTES = 256 * KIB
"""The same in bytes: they are read again with each manifest that comes."""

OPEN_VOTES = 1_000
"""Votes of a group that have not decided anything yet. Half of them are shared out among its admins, one each at least,
so that no admin keeps the votes of others out."""

MESSAGES_AHEAD = 64
"""Messages that wait for a manifest that they rest on, in all groups; what finds no room is not acknowledged, and comes
again."""

MESSAGES_AHEAD_OF_ONE = 8
"""The same of one author. Beyond those of all, each author may have one more, so that nobody keeps others out."""

MAXIMUM_REVOKE_BYTES = 64 * KIB
"""A Revoke that names 1,000 members."""

REVOKE_US = 86_400_000_000
"""How long a device that destroys a group tries to notify the others before it forgets the group."""

REVOKE_KNOWN_US = 600_000_000
"""...and how long at least where all have acknowledged the notice, but something else waits for one of them: it may
lack the manifest that the notice rests on, and ask for it."""

DEPARTURE_US = 30 * 86_400_000_000
"""How long a removed device is notified of its removal, while agents run; then its address is forgotten, with whatever
waits for it."""

VOID_DEVICES = 64
"""Departure notices open at a time beyond which devices of void manifests get none: the removed may make them up."""

RECONCILE_ISSUER_US = (2_000_000, 15_000_000)
"""An issuer of rivals waits between these before it ends the conflict: the other one may, and more may come."""

RECONCILE_ANYBODY_US = (30_000_000, 120_000_000)
"""Everybody else waits between these, for the issuers to be back."""

PULL_US = 30_000_000
"""Between two requests for the same missing manifests..."""

PULL_US_MAX = 1_800_000_000
"""...and what that doubles up to while nothing comes, half to a whole hour: what is missing may be larger than any
packet of a relay, for as long as nobody sets that up."""

SECRET_PULLS = 10
"""Times that a member asks in vain for the secret of an epoch, over half an hour or so, before another one is begun."""

PULLS_ANSWERED = 3
"""Requests of one member in one group that are answered in half of that time: a newcomer asks further back, and for
what went before; and one of before its restart may come first."""

BUNDLE_MANIFESTS = 64
"""Manifests of one message that are sent, and taken; what does not fit is asked for. A Pi verifies and places so many
in a tenth of a second."""

BUNDLE_BYTES = 264 * KIB
"""The same in bytes, one manifest at least: reading 1,000 members costs a Pi a tenth of a second."""

REMEMBERED_MANIFESTS = 64
"""Manifests that stay parsed in a process, the last ones used: as many as one message brings."""

REMEMBERED_MANIFEST_BYTES = 4 * KIB
"""The longest of these: of some 25 members. Longer ones are rare, and would fill a Pi's memory."""

STEPS_AT_ONCE = 4_096
"""Manifests compared for those of one message that follow several, each with all that it follows; what is left waits
for the next message."""

MAXIMUM_LABEL_BYTES = 64
"""A member's label in UTF-8 (002.30)."""

MAXIMUM_CAPABILITIES = 8
"""Capabilities of one member."""

MAXIMUM_CAPABILITY_BYTES = 32
"""One capability's name in UTF-8."""

MAXIMUM_GROUPS = 128
"""Groups that one device belongs to: with 999 others in each, 100,000 devices that one collector serves."""

MAINTENANCE_US = 600_000_000
"""Between two looks at what has waited too long."""

MAXIMUM_ANNOUNCEMENT_BYTES = 128
"""What a member's record says of the device's build: every manifest repeats it for each of up to 1,000 members."""

MAXIMUM_FEATURES = 32
"""Protocol features that a device announces; version 1 has 7."""

MAXIMUM_FEATURE = 65_535
"""Largest number of a feature; those from 61,440 on are for private use."""

REMEMBERED_ANNOUNCEMENTS = 64
"""Announcements that are parsed once: devices of one build announce the same."""
