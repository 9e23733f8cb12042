"""A device's name for people: the first digits of its key, and its label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.ids import KEY_BYTES, DeviceKey, device_name, fingerprint, key_text, labelled_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from covey.core.group.manifest import GroupManifest

_DIGITS = 4
"""From so many digits on, a label that begins another device's key is ambiguous: shorter words are often hex."""


def devices_meant(labels: Mapping[DeviceKey, str], name: str) -> list[DeviceKey]:
    """Return the devices that a person may mean: by a key, its fingerprint, its first hex digits, or a label.

    A device chooses its own label, maybe as the first digits of another one's key: then both may be meant.
    """
    wanted = name.lower()
    text = _text_of(wanted)  # made of thousands of keys only where somebody has given one
    named = [key for key in labels if key.hex() == wanted or (text is not None and text(key) == wanted)]
    labelled = [key for key, label in labels.items() if label and label == name]
    if named or (labelled and len(name) < _DIGITS):
        return named or labelled
    begun = [key for key in labels if name and key.hex().startswith(wanted)]
    return list(dict.fromkeys([*labelled, *begun]))


def _text_of(wanted: str) -> Callable[[DeviceKey], str] | None:
    """Return what makes the text of a key in the form that a person gave; None where it is in none of the forms."""
    nobody = DeviceKey(bytes(KEY_BYTES))
    forms: tuple[Callable[[DeviceKey], str], ...] = (
        lambda key: key_text("sign", key),
        lambda key: fingerprint(key).lower(),
    )
    return next((form for form in forms if len(form(nobody)) == len(wanted)), None)


class DeviceLabels:
    """What devices are called in some manifests: the first one that has a device counts, and none is read too early."""

    def __init__(self, manifests: Iterable[GroupManifest]) -> None:
        self._unread = iter(manifests)
        self._read: list[GroupManifest] = []

    def label(self, key: DeviceKey) -> str:
        """Return a device's label as its group has it, which may be hostile; empty where no manifest has the device."""
        return next((member.label for each in self._manifests() if (member := each.member(key)) is not None), "")

    def named(self, key: DeviceKey) -> str:
        """Return a device's name and its label, safe for a terminal or a log line."""
        return labelled_name(device_name(key), self.label(key))

    def _manifests(self) -> Iterator[GroupManifest]:
        yield from self._read
        for each in self._unread:
            self._read.append(each)
            yield each
