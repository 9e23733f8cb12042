"""The sources' trees, and when they go."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _trees_are_freed() -> Iterator[None]:
    """Free what the rules remember: three million objects, in which Python looks for garbage for 10 s when it ends."""
    yield
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}."):
            for remembers in vars(module).values():
                if hasattr(remembers, "cache_clear"):
                    remembers.cache_clear()
