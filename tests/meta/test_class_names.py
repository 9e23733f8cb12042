"""A class has its name for itself: whoever reads it anywhere knows which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.meta.source_tree import sources

_SHARED = {
    "Batch": "a board packs the batches that the agent's reads: the same thing in two dialects of Python",
    "Clock": "the same port on a board and on an agent",
    "Identity": "a board's identity has the agent's name and functions: the same thing in two dialects of Python",
    "Inbox": "a board's own, of what it has heard of its collector; the agent's are rows of a database",
    "LinkKeys": "as Inbox",
    "Outbox": "as Inbox",
}
"""Names that stand twice, each with the reason."""

_SPEAK_FOR_THEMSELVES = {
    "covey.adapters.mqtt.states": "states and events are named within their transition table",
    "covey.core.link.send_window": "likewise",
    "covey.core.pairing.inviter": "likewise",
    "covey.core.pairing.joiner": "likewise",
    "covey.app.documents": "a document is named after what it describes",
}
"""Modules whose classes are read beside each other alone, each with the reason."""


def test_no_two_classes_of_the_product_share_a_name() -> None:
    """Classes with an underscore are their module's own, and may be called what is short there."""
    modules = defaultdict(list)
    for source in sources("agent", "spark_ingest", "firmware_bridge", "broker_conf"):
        for node in source.nodes:
            own = source.module in _SPEAK_FOR_THEMSELVES
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not own:
                modules[node.name].append(source.module)
    twice = {name: where for name, where in modules.items() if len(where) > 1}
    assert not {name: where for name, where in twice.items() if name not in _SHARED}
    assert not _SHARED.keys() - twice.keys(), "these stand once: take them off the list"
