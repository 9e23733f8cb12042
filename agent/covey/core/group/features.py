"""The protocol features that devices announce in their group manifests (docs/protocol/core.md, "Growth").

A device announces features, not a product version, because another implementation has other versions. The author of an
order can check in advance which targets support it. A device announces only its own features. A false announcement
harms only its device: it gets an order that it does not carry out, or a message that it sets aside.
"""

from __future__ import annotations

from enum import IntEnum

from covey.core.group.manifest import Member
from covey.core.group.rules import NEWEST_RULES
from covey.core.wire import cbor
from covey.core.wire.announcement import FEATURES, KNOWN_RULES


class Feature(IntEnum):
    """What a device of this protocol may support, beyond what every member must."""

    HISTORY = 1
    SETTINGS = 2
    COMMANDS = 3
    RELEASES = 4
    FILES = 5
    EPHEMERAL = 6
    TAGGED_PULLS = 7

    @property
    def word(self) -> str:
        """The feature as people and programs read it."""
        return self.name.lower()


def own_announcement() -> bytes:
    """Return the extension map by which this build announces what it supports."""
    said: dict[int, object] = {FEATURES: [int(each) for each in Feature]}
    if NEWEST_RULES > 1:
        said[KNOWN_RULES] = NEWEST_RULES
    return cbor.encode(said)


def feature_words(member: Member) -> list[str]:
    """Return the features that a member announces, as people read them; those of newer builds by number."""
    known = {int(each): each.word for each in Feature}
    return [known.get(each, str(each)) for each in sorted(member.features or ())]


def lacks(member: Member, feature: Feature) -> bool:
    """Say whether a device announces its features, and not this one."""
    return member.features is not None and feature not in member.features
