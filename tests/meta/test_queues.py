"""What waits for an event with a time limit also ends when a signal comes at the limit."""

from __future__ import annotations

import ast

from tests.meta.source_tree import HOLDS_PACKAGES, sources


def test_no_simple_queue_is_waited_for() -> None:
    """`SimpleQueue.get` waits for ever where a signal's handler returns after the limit (CPython 3.11).

    An agent that was asked to end just then ended no more; `Queue.get` looks at the clock again.
    """
    assert not [
        str(source)
        for source in sources(*HOLDS_PACKAGES)
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and "SimpleQueue" in {alias.name for alias in node.names}
    ]
