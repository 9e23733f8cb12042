"""Who let an author in, and who let that member in: the families whose operations count together (`shares.py`, rule 6).

1. A device's *sponsor* is the member that issued the manifest which let it in. The founder is on level 0, those that it
   has let in on level 1, and all others on level 2.
2. A device is of the family of the founder, of its sponsor on level 1, and of its sponsor on level 2, or is one of
   these itself. Its *line* names them.
3. In a mode with admins, only admins let others in: each such device is a family of its own, on level 2. Those that let
   themselves in are one family together, on level 1.
4. The line of an author is unknown while its admission, or that of a sponsor, is not here.

The result depends only on the manifest that an operation names and on those that it follows, so devices that hold the
whole chain agree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from covey.core.group.manifest import EQUAL_MODES, GroupManifest, Mode, read_manifest
from covey.core.ids import DeviceKey, GroupId, ManifestHash
from covey.limits.history import REMEMBERED_LINES

LOWEST_LEVEL = 2

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class SponsorFamily(NamedTuple):
    """A device and all that came in through it; `since` is the version that let it in."""

    level: int
    device: DeviceKey
    since: int


Line = tuple[SponsorFamily, ...]
"""The families of an author, the founder's first."""

STRANGERS = SponsorFamily(1, DeviceKey(b""), 0)
"""Devices that let themselves into a public group."""


UNKNOWN = SponsorFamily(LOWEST_LEVEL, DeviceKey(b""), 0)
"""Authors whose lines are unknown (rule 4)."""


class Sponsors:
    """The lines of authors, by the manifests that their operations name."""

    def __init__(
        self,
        manifest: Callable[[GroupId, ManifestHash], GroupManifest | None],
        at_version: Callable[[GroupId, int], Iterable[bytes]],
    ) -> None:
        """`at_version` returns the accepted manifests of a version."""
        self._manifest = manifest
        self._at_version = at_version
        self._lines: OrderedDict[tuple[ManifestHash, DeviceKey], Line] = OrderedDict()
        self._of_admissions: OrderedDict[tuple[ManifestHash, DeviceKey], Line] = OrderedDict()
        self._let_in_by: OrderedDict[tuple[ManifestHash, DeviceKey, int], ManifestHash] = OrderedDict()

    def line(self, group_id: GroupId, author: DeviceKey, named: ManifestHash) -> Line:
        """Return the line of an author under a manifest that is here and lists it."""
        found = self._lines.get((named, author))
        if found is None:
            manifest = self._manifest(group_id, named)
            found = None if manifest is None else self._line_under(manifest, author)
            if found is None:  # rule 4
                return (UNKNOWN,)
            _remember(self._lines, (named, author), found)
        return found

    def _line_under(self, manifest: GroupManifest, author: DeviceKey) -> Line | None:
        """Return the line of a listed author; from the sponsors whose line is known, or the founder, down."""
        below: list[tuple[ManifestHash, DeviceKey, int]] = []
        above: Line | None = None
        while above is None:
            member = manifest.member(author)
            if member is None:
                return None
            if manifest.mode is Mode.ADMIN_INVITES:
                return (SponsorFamily(LOWEST_LEVEL, author, member.since),)
            if member.since == 1:
                above = (SponsorFamily(0, author, 1),)
                break
            admission = self._admission(manifest, author, member.since)
            if admission is None:
                return None
            if admission.issuer == author:
                return STRANGERS, SponsorFamily(LOWEST_LEVEL, author, member.since)
            if admission.mode not in {*EQUAL_MODES, Mode.ONE_TO_ONE}:
                return (SponsorFamily(LOWEST_LEVEL, author, member.since),)
            above = self._of_admissions.get((admission.hash, author))
            if above is None:
                below.append((admission.hash, author, member.since))
                manifest, author = admission, admission.issuer
        for admitted_by, each, since in reversed(below):
            if len(above) <= LOWEST_LEVEL:
                above = (*above, SponsorFamily(len(above), each, since))
            _remember(self._of_admissions, (admitted_by, each), above)
        return above

    def _admission(self, manifest: GroupManifest, author: DeviceKey, since: int) -> GroupManifest | None:
        """Return the manifest that let a member in, and which a later one is or follows."""
        read = (read_manifest(raw, verify=False) for raw in self._at_version(manifest.group_id, since))
        letting_in = [each for each in read if _lists(each, author, since)]
        if len(letting_in) <= 1:
            return letting_in[0] if letting_in else None
        found: GroupManifest | None = manifest  # rivals have let it in: the one counts that this manifest follows
        passed: list[ManifestHash] = []
        while found is not None and found.version > since:
            known = self._let_in_by.get((found.hash, author, since))
            if known is not None:
                found = next(each for each in letting_in if each.hash == known)
                break
            passed.append(found.hash)
            before = (self._manifest(manifest.group_id, each) for each in found.prev)
            found = next((each for each in before if each is not None and _lists(each, author, since)), None)
        if found is not None:
            for each in passed:
                _remember(self._let_in_by, (each, author, since), found.hash)
        return found


def _lists(manifest: GroupManifest, author: DeviceKey, since: int) -> bool:
    member = manifest.member(author)
    return member is not None and member.since == since


def _remember(found: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    found[key] = value
    if len(found) > REMEMBERED_LINES:
        found.popitem(last=False)
