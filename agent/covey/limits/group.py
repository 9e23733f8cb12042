"""Groups: their manifests, members, votes and departures."""

from __future__ import annotations

from covey.limits.units import KIB

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

MAINTENANCE_US = 600_000_000
"""Between two looks at what has waited too long."""
