"""Names are made of the field's own words: whoever reads the code learns no vocabulary of ours.

The glossary of docs/internals/architecture.md says what the words mean; this is the list of words not to use,
each with a replacement. Judged are the names that the code itself gives: modules, classes, functions,
arguments, attributes and variables. The name of a test is a sentence, and may have a sentence's words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.meta.source_tree import HOLDS_PACKAGES, PRODUCT, Source, sources, within

_METAPHORS = {
    "attendance": "peer presence",
    "ballast": "reserved space",
    "bequeath": "set will",
    "era": "incarnation span",
    "eras": "incarnation spans",
    "lapsed": "void",
    "locksmith": "key reload",
    "misled": "void",
    "pulse": "heartbeat",
    "restless": "has work",
    "undertaker": "group teardown",
    "untold": "unreported",
    "upkeep": "maintenance",
}
"""Words that mean something only to whoever has been told what: for each what it is."""

_VAGUE = {
    "again": "what is done: retried, reopened, the second",
    "anew": "re-signed, rewritten",
    "carried": "forwarded",
    "doubt": "rollback detected",
    "doubted": "rollback detected",
    "door": "connection",
    "farewell": "departure, notice",
    "hear": "receive, read",
    "heard": "seen, received",
    "honest": "time quality",
    "letter": "export entry",
    "letters": "export entries",
    "life": "lifetime, incarnation",
    "lives": "incarnations, runs",
    "reach": "connect, range",
    "steady": "in order",
    "tell": "report, notify, print",
    "tells": "reports",
    "telling": "reporting",
    "tend": "maintain",
    "told": "reported, printed",
    "ways": "routes",
}
"""Good words of a sentence, and poor ones of a name: what of which thing, they do not say."""

_EXCEPTIONS = {
    "FAREWELL": "the pairing message of that name on the wire",
    "Farewell": "the pairing message of that name on the wire",
    "_farewell": "makes that message",
    "letters": "the registers of tweetnacl_field's programs, which are letters",
    "_hear": "a board's, beside its `receive`",
    "carried": "a board's entry that its gateway has not answered yet",
    "heard": "a board's, of its link keys",
    "door_tables": "of the glossary's doors",
    "DoorError": "of the glossary's doors",
}
"""Names that hold such a word nevertheless, each with the reason."""

_BOARDS = ("_hear", "carried", "heard", "letters")
"""Exceptions for what runs on a board alone."""

_NAMED: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler), "name"),
    **dict.fromkeys((ast.MatchAs, ast.MatchStar), "name"),
    ast.arg: "arg",
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.alias: "asname",
}
"""The nodes that give a name, and in which field; looking it up is quicker than matching a million nodes."""


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _given(source: Source) -> set[str]:
    """Return every name that a file gives to something, and its own."""
    return {source.path.stem, *_names(source.nodes)}


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        field = _NAMED.get(type(node))
        if field is None or isinstance(getattr(node, "ctx", None), ast.Load | ast.Del):
            continue
        name = getattr(node, field)
        if name is not None:
            yield name


def _excepted(name: str, source: Source) -> bool:
    rooms = ("covey_boards.device", "covey_boards.shared", "tests.unit.covey_boards.device")
    on_board = any(within(source.module, room) for room in rooms)
    if "door" in _words(name):  # the one meaning that the glossary gives it
        return name in _EXCEPTIONS or "door" in source.module.rpartition(".")[2] or ".doors" in source.module
    return name in _EXCEPTIONS and (name not in _BOARDS or on_board)


def test_names_are_of_the_fields_own_words() -> None:
    found = []
    for source in sources(*PRODUCT, "tests"):
        for name in sorted(_given(source)):
            banned = _METAPHORS if name.startswith("test_") else _METAPHORS | _VAGUE
            said = [f"{word} ({banned[word]})" for word in sorted(_words(name) & banned.keys())]
            if said and not _excepted(name, source):
                found.append(f"{source}: {name}: {', '.join(said)}")
    assert not found


def test_no_exception_is_left_over() -> None:
    given = {name for source in sources(*HOLDS_PACKAGES) for name in _given(source)}
    assert not _EXCEPTIONS.keys() - given
