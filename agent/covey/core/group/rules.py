"""The versions of the judging rules of groups: how rivals are resolved, and what an issuer may change.

A manifest names the version by which all its successors are judged (`manifest.RULES`). So a better rule never splits a
group: all its devices switch with the same manifest, and only once each member announces that it supports the version.
If a manifest follows several others, the version is that of the base of judging: the last one that all of these follow
or are followed by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from covey.core.group.manifest import GroupManifest
from covey.core.group.policy import authorise
from covey.core.group.resolver import Change, GroupState, Step, resolve
from covey.errors import UnsupportedError


class Authorise(Protocol):
    """Checks whether the issuer of a manifest may make its change; raises `RemoteError` where not."""

    def __call__(self, manifest: GroupManifest, before: GroupState, change: Change, *, renews: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class JudgingRules:
    """One version of the rules."""

    resolve: Callable[[GroupState, Iterable[Step]], GroupState]
    authorise: Authorise


JUDGING: dict[int, JudgingRules] = {1: JudgingRules(resolve, authorise)}
NEWEST_RULES = max(JUDGING)


def judging(version: int) -> JudgingRules:
    """Return the rules of a version.

    Raises:
        UnsupportedError: this build does not know them.
    """
    found = JUDGING.get(version)
    if found is None:
        raise UnsupportedError(f"this group is judged by rules of version {version}, which this Covey does not know")
    return found


def version_for(manifest: GroupManifest) -> int:
    """Return the version that a manifest is to name: the highest that this build and all members that it lists know."""
    return min([max(JUDGING), *(member.known_rules for member in manifest.members)])
