"""What holds for all tests."""

from __future__ import annotations

import signal
from itertools import chain, zip_longest

import pytest

_LONG = ("spark", "sim", "integration")
"""Folders whose files take long. They begin first, and by turns, so that no processor waits for the last one's end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of the long folders first."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    folders = {name: [tests for file, tests in files.items() if f"/tests/{name}/" in file] for name in _LONG}
    turns = chain.from_iterable(zip_longest(*folders.values(), fillvalue=[]))
    first = list(chain.from_iterable(turns))
    seen = set(map(id, first))
    items[:] = first + [item for item in items if id(item) not in seen]


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in a shell's background, where Ctrl-C is ignored, and so it would be by every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
