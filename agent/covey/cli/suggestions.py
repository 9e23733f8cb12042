"""Suggest a known word for one that a command does not know: first by meaning, then by spelling."""

from __future__ import annotations

from collections.abc import Iterable

from covey.config.settings import nearest

_ALIKE = (
    ("start", "begin", "open", "run", "launch", "watch"),
    ("end", "stop", "close", "finish", "abort", "cancel"),
    ("link", "enrol", "add", "pair", "connect", "register", "invite"),
    ("create", "new", "make", "init", "begin", "start"),
    ("destroy", "delete", "dissolve"),
    ("remove", "delete", "rm", "del", "unset", "drop", "forget", "purge", "retire", "revoke"),
    ("history", "log", "logs"),
    ("fleet", "devices", "nodes", "machines"),
    ("group", "groups", "members"),
    ("list", "ls", "log", "show", "get", "stats", "status", "devices", "view", "info"),
    ("set", "change", "edit", "update", "modify", "put"),
    ("check", "verify", "test", "try", "doctor", "diagnose", "validate", "audit", "prove"),
    ("accept", "approve", "agree", "confirm", "yes"),
    ("decline", "reject", "refuse", "deny", "no"),
    ("pause", "halt", "suspend", "hold", "stop"),
    ("resume", "continue", "unpause", "start"),
    ("order", "do", "exec", "execute", "command", "call"),
    ("monitor", "watch", "follow", "tail"),
)
"""Words that mean much the same of what has them, the one that is proposed first before the others."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word; empty if none is near."""
    names = list(known)
    found = [each for alike in _ALIKE if word in alike for each in alike if each in names] or nearest(word, names, 1)
    return f"did you mean '{found[0]}'?" if found else ""
