"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {
    730_002_867: "outboxes do not drain: {'ann': 3, 'ben': 3, 'collector': 0, 'guest': 0}",
    730_028_919: "a storm of resends",
    730_029_712: "a destruction is not obeyed by who lists its issuer",
    730_044_818: "outboxes do not drain: {'ann': 4, 'ben': 2, 'collector': 0, 'guest': 0}",
}
"""730002867 and 730044818: the product. A lost life of ann issued version 7, which removes the collector; ann issued
another version 7. Only those whom both together remove hold the two, and ann and ben list the collector still. Its
report tells them of other heads, but the request for these waits for the votes that wait for the collector, which takes
none. `HeadsExchange._ask` asks `although_waiting` only for a higher version; both worlds are whole where it does so for
other heads of the same version, too.

730028919: the product. A former member has issued more rivals of version 5 than `RIVALS_OF_ONE`, all of them void, and
each member holds the eight that came to it first. So their heads never agree, and they ask each other for manifests
that `GroupTrust._check_rivals` refuses, as often as `pacing.py` lets them, for ever. Which eight are held should not
depend on the order in which they come: the lowest hashes, say, each in the place of a higher one.

730029712: the product. ben lets ann in again by version 8 just before the REVOKE of the collector comes, which is of
version 7, and passes that on to ann. It overtakes the manifests; ann is not among its targets, so that
`Membership.receive_revoke` refuses it for good ("no member of") where it should keep it as what is ahead. ben and the
collector take ann to know, and forget the group. The world is whole where whoever is out of the group keeps any REVOKE
that comes from a member of it until it is in, bounded as all that is ahead."""
