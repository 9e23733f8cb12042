"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS = {
    21005: "a storm of resends",
}
"""21005: a round trip of half a minute, since its relay delivers one message at a time, is hardly ever measured: nine
of ten messages have gone more than once when they are acknowledged, which measures nothing, and each acknowledgement
sets the retry time to its base (docs/protocol.md, "The link"; RFC 6298, section 5, would keep the one that has grown).
"""
