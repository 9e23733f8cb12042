"""`covey ingest`: hand over to the Spark job, a program of its own, so that no part of Spark enters this process.

`covey ingest report` goes there too; it needs no Spark, and says itself what it misses.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from agent.errors import ConfigurationError


def hand_over(words: list[str]) -> int:
    """Become the ingest.

    Raises:
        ConfigurationError: it is not installed here.
    """
    if words[:1] != ["report"] and find_spec("pyspark") is None:
        raise ConfigurationError("the ingest is not installed here", hint="pip install 'covey[spark]'")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "spark_ingest", *words])  # noqa: S606 - our own program, no shell
