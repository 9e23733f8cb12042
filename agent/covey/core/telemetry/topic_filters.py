"""Filters of MQTT topics (MQTT 5, section 4.7): which of them match the same topics."""

from __future__ import annotations

from itertools import zip_longest


def covers(wide: str, narrow: str) -> bool:
    """Say whether a filter matches every topic that another one matches."""
    if _is_hidden(wide, narrow):
        return False
    for mine, other in zip_longest(wide.split("/"), narrow.split("/")):
        if mine == "#":
            return True
        if mine is None or other in {None, "#"} or mine not in {"+", other}:
            return False
    return True


def overlap(one: str, other: str) -> bool:
    """Say whether some topic is matched by two filters."""
    if _is_hidden(one, other) or _is_hidden(other, one):
        return False
    for here, there in zip_longest(one.split("/"), other.split("/")):
        if "#" in {here, there}:
            return True
        if here is None or there is None or (here != there and "+" not in {here, there}):
            return False
    return True


def _is_hidden(wide: str, narrow: str) -> bool:
    return narrow.startswith("$") and wide[:1] in {"+", "#"}
