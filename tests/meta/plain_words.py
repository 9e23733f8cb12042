"""The one list of words and phrases that make a sentence hard to read, each with what to write instead.

`found(text)` looks for those of running text: help strings, titles, headings, the changelog. `found_in_output(text)`
also looks for those of what the product prints. `found_in_name(name)` looks for those of a test's name.
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

_OUTPUT = {
    r"(?:un)?heard": "last seen, received",
    r"tell(?:s|ing)?|told(?! to\b)": "notify, report, print",
    r"came to|came back|has come|have come|comes? again": "arrived, the result",
    r"any more|once more": "no longer, again",
    r"of those": "of them, of which, or the noun",
    r"(?:no|any|every|some)body": "name the actor: no device, any operator, all members",
    r"by (?:itself|themselves)": "automatically",
    r"where it may|where (?:it|they|there) (?:is|are|has|have)": "if",
    r"mend(?:s|ed)?": "fix, correct",
    r"in step": "the same as",
    r"passed over|left out|lets? in": "skipped, dropped, admit",
    r"asks?ed for|asked for": "requested",
    r"beginning of (?:its|a|the) (?:id|key)|(?:id|key)'s beginning": "start of",
    r"forg[eo]t(?:s|ten|ting)?": "delete, unset",
    r"what (?:has|have|waits?|comes?|came|lands?|landed)": "name it: messages, readings",
    r"is no (?!longer\b|account\b|room\b|terminal\b|other\b|answer\b)": "is not a",
}
"""Of what a person reads on a screen, as regular expressions of whole words."""

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
_SHOWN = _TEXT + [
    (re.compile(rf"\b(?:{pattern})(?<= )|\b(?:{pattern})\b", re.IGNORECASE), instead)
    for pattern, instead in _OUTPUT.items()
]
_NAME = [(re.compile(rf"_{words}(?=_|$)"), instead) for words, instead in _NAMES.items()]


def found(text: str) -> list[str]:
    """Return each phrase of a text that is not to be used, with what to write instead."""
    return [f"{match[0]!r}: {instead}" for pattern, instead in _TEXT for match in pattern.finditer(text)]


def found_in_output(text: str) -> list[str]:
    """Return each phrase of a printed line that is not to be used, with what to write instead."""
    return [f"{match[0]!r}: {instead}" for pattern, instead in _SHOWN for match in pattern.finditer(text)]


def found_in_name(name: str) -> list[str]:
    """Return each phrase of a test's name that is not to be used, with what to write instead."""
    return [f"{match[0]!r}: {instead}" for pattern, instead in _NAME for match in pattern.finditer(name)]
