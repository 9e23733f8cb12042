"""What a person reads of a group before being in it, and of who would order the device then: its inviter's word."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from covey.core.ids import DeviceKey, GroupId, device_name, fingerprint
from covey.core.pairing.messages import InviterIntroduction
from covey.core.pairing.preview import GroupPreview


@dataclass(frozen=True, slots=True)
class PreviewedMember:
    """One member of a group that a person is invited to, by the inviter's word."""

    name: str
    fingerprint: str
    label: str


@dataclass(frozen=True, slots=True)
class PreviewedPicture:
    """A group's picture, by the inviter's word; its content is base64."""

    mime: str
    base64: str

    @classmethod
    def of(cls, mime: str, content: bytes) -> PreviewedPicture:
        """Return a picture as a document has it."""
        return cls(mime, b64encode(content).decode())


@dataclass(frozen=True, slots=True)
class PreviewedGroup:
    """A group that a person is invited to, by the inviter's word: how many members it has, and those who came first."""

    group_id: str
    title: str
    members: int
    shown: tuple[PreviewedMember, ...]
    description: str = ""
    picture: PreviewedPicture | None = None


def previewed(group_id: GroupId, preview: GroupPreview) -> PreviewedGroup:
    """Return what a person reads of a preview."""
    shown = tuple(PreviewedMember(device_name(key), fingerprint(key), label) for key, label in preview.members)
    picture = None if preview.picture is None else PreviewedPicture.of(*preview.picture)
    return PreviewedGroup(group_id.hex(), preview.title, preview.count, shown, preview.description, picture)


def shown_operators(keys: Iterable[DeviceKey], labels: Mapping[DeviceKey, str]) -> tuple[PreviewedMember, ...]:
    """Return operators that an invite names as a person reads them."""
    return tuple(PreviewedMember(device_name(key), fingerprint(key), labels.get(key, "")) for key in keys)


def labels_of(inviter: InviterIntroduction) -> dict[DeviceKey, str]:
    """Return the labels of the devices that an inviter has named, by its word."""
    return {**dict(inviter.preview.members), inviter.keys.signing_public: inviter.label}
