"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {
    730_002_867: "outboxes do not drain: {'ann': 3, 'ben': 3, 'collector': 0, 'guest': 0}",
    730_044_818: "outboxes do not drain: {'ann': 4, 'ben': 2, 'collector': 0, 'guest': 0}",
}
"""The product. A lost life of ann issued version 7, which removes the collector; ann issued another version 7. Only
those whom both together remove hold the two, and ann and ben list the collector still. Its report tells them of other
heads, but the request for these waits for the votes that wait for the collector, which takes none. Both are whole where
`HeadsExchange._ask` asks for other heads of the same version although something waits; but then worlds of own devices
fall (seeds 9 and 12: a secret that waits for a member outlives its group)."""
