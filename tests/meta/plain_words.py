"""The one list of words and phrases that make a sentence hard to read, each with what to write instead.

`found(text)` looks for those of running text: help strings, titles, headings, the changelog. `found_in_name(name)`
looks for those of a test's name.
"""

from __future__ import annotations

import re

_PHRASES = {
    r"who(?:m|so)?ever": "name the actor: a device, a member, any operator",
    r"whom": "name the actor",
    r"(?<=[.:;] )who \w+s\b": "name the actor: a device that, an operator that",
    r"wherever": "where, at each place",
    r"what(?:ever)? (?:\w+ ){0,3}comes (?:to|of)": "the result, the sum",
    r"becomes? of|became of|comes of|came of": "the result, the outcome",
    r"anew": "again, or what happens: rebuilt, restarted",
    r"for good": "permanently",
    r"go(?:es)? on(?= with\b| in\b| after\b| until\b|[.,;:]|$)": "continue",
    r"let(?:s|ting)? go(?: of)?": "delete, release, free",
    r"no more(?! than\b)": "no longer, nothing else",
    r"stands (?:in|at|for|there)\b": "is",
    r"beside": "next to, in addition to",
    r"(?:is|are) (?:told|heard)(?= of\b| by\b|[.,;:]|$)": "reported, received",
}
"""Of running text, as regular expressions of whole words."""

_NAMES = {
    "are_told": "reported, notified",
    "whoever": "name the actor",
    "whomever": "name the actor",
    "whom": "name the actor",
    "wherever": "in each case",
    "anew": "again, or what happens: rebuilt, restarted",
    "for_good": "permanently",
    "let_go": "delete, release, free",
    "lets_go": "deletes, releases, frees",
    "no_more": "no longer, at most",
    "is_heard": "received",
    "is_told": "reported, notified",
    "of_which": "name it",
    "becomes_of": "the result",
    "comes_of": "the result",
    "stands": "is",
}
"""Of a test's name."""

_TEXT = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in _PHRASES.items()]
_NAME = [(re.compile(rf"_{words}(?=_|$)"), instead) for words, instead in _NAMES.items()]


def found(text: str) -> list[str]:
    """Return each phrase of a text that is not to be used, with what to write instead."""
    return [f"{match[0]!r}: {instead}" for pattern, instead in _TEXT for match in pattern.finditer(text)]


def found_in_name(name: str) -> list[str]:
    """Return each phrase of a test's name that is not to be used, with what to write instead."""
    return [f"{match[0]!r}: {instead}" for pattern, instead in _NAME for match in pattern.finditer(name)]
