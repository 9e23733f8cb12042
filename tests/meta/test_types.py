"""What is a key, an id or a number of its own kind says so in its type, so that mypy finds where two are confused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.meta.source_tree import Source, sources

_TYPES = {
    "author": "DeviceKey",
    "device": "DeviceKey",
    "epoch_id": "EpochId",
    "group_id": "GroupId",
    "incarnation": "Incarnation",
    "link_seq": "LinkSeq",
    "manifest_hash": "ManifestHash",
    "noise_public": "NoisePublic",
    "place": "Place",
    "recipient": "DeviceKey",
    "signing_public": "DeviceKey",
    "vault_id": "VaultId",
}
"""Of `covey.core.ids`, by the name of the argument or attribute."""

_JSON = "documents"
"""What programs are given is JSON, which knows numbers and text."""


def _annotated(source: Source) -> Iterator[tuple[str, str]]:
    """Yield the arguments and attributes of a file that have an annotation, with it."""
    for node in source.nodes:
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                yield name, ast.unparse(annotation)
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
                yield name, ast.unparse(annotation)


def test_keys_ids_and_numbers_have_types_of_their_own() -> None:
    assert not [
        f"{source}: {name}: {annotation}, where it is a {_TYPES[name]}"
        for source in sources("agent")
        if not source.module.endswith(_JSON)
        for name, annotation in _annotated(source)
        if name in _TYPES and re.search(r"\b(bytes|int)\b", annotation)
    ]
