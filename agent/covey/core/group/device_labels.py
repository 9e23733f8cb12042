"""A device's name for people: the first digits of its key, and its label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, device_name, labelled_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covey.core.group.manifest import GroupManifest


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
