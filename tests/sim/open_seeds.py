"""Worlds that are known to fail, and wait for somebody to find out why: a defect of the product, or of the gate.

Each must go on failing as is said here; one that does not is to be taken off.
"""

from __future__ import annotations

OPEN_SEEDS: dict[int, str] = {730_028_919: "a storm of resends"}
"""730028919: the product. A former member has issued more rivals of version 5 than `RIVALS_OF_ONE`, all of them void,
and each member holds the eight that came to it first. So their heads never agree, and they ask each other for
manifests that `GroupTrust._check_rivals` refuses, as often as `pacing.py` lets them, for ever. Which eight are held
should not depend on the order in which they come: the lowest hashes, say, each in the place of a higher one."""
