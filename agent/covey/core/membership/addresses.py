"""The devices that this device may send to, their noise keys, and the departures it still has to announce.

1. A member's address is the noise key that its group's manifest lists; the address of an inviter whose answer is
   awaited is the one that the invite pins.
2. A device that no longer shares a group with this one keeps its last address until it has acknowledged the notice of
   its removal, or for `DEPARTURE_US` of running time, so that no clock change ends it. Then what waits for it is
   dropped and its address forgotten. Until then it is sent the notice, and its messages are not accepted. A device
   outside a group leaves notices to the members, except to devices that only void manifests added, because it may be
   the only one that knows. A device that left by itself gets no notice.
3. A device that asks for a public group's manifest has an address for `VISIT_US`, or until it has acknowledged the
   manifest.
4. A former member is told nothing that came later: any device that one of its manifests lists, except void ones, may
   still be a member. It accepts messages from these and acknowledges what they still owe it; it sends nothing else to
   those that it also believes to be out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import BOARD, GroupManifest, Member
from covey.core.group.messages import Departed
from covey.core.ids import DeviceKey, NoisePublic
from covey.limits.group import DEPARTURE_US
from covey.limits.link import RETRY_US_MAX
from covey.limits.pairing import JOIN_RETRY_US, JOIN_TRIES, PUBLIC_VISITORS, VISIT_US

if TYPE_CHECKING:
    from covey.core.records import Records


class Addresses:
    """Noise keys by signing key; all of it follows from the records."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._noise: dict[DeviceKey, NoisePublic] = {}
        self._accepted_authors: Collection[DeviceKey] = frozenset()
        self._boards: frozenset[DeviceKey] = frozenset()
        self._left_behind: dict[DeviceKey, NoisePublic] = {}
        self._asked: dict[DeviceKey, int] = {}
        """By inviter, when the invite ends."""
        self._departed: list[Departed] = []

    def rebuild(self, groups: Iterable[GroupManifest], left_behind: Iterable[Member]) -> None:
        """Load all groups' members, the departures, and the joins that wait for an answer.

        `left_behind` are members of groups that this device has left, a later listing after an earlier one.
        """
        accepted: dict[DeviceKey, NoisePublic] = {}
        boards: set[DeviceKey] = set()
        for group in groups:
            accepted |= {member.keys.signing_public: member.keys.noise_public for member in group.members}
            boards.update(member.keys.signing_public for member in group.with_capability(BOARD))
        self._boards = frozenset(boards)
        joins = self._records.joins.pending()
        for pending in joins:
            accepted[pending.inviter.signing_public] = pending.inviter.noise_public
        self._asked = {pending.inviter.signing_public: pending.expires_at_us for pending in joins}
        self._left_behind = {member.keys.signing_public: member.keys.noise_public for member in left_behind}
        self._accepted_authors = accepted.keys()
        departed = dict(self._records.departures.addresses())
        self._noise = departed | accepted if departed else accepted  # of 100,000 devices a copy is 10 MB

    def of(self, signing_public: DeviceKey) -> NoisePublic | None:
        """Return the noise key of a device that this one may speak to."""
        return self._noise.get(signing_public)

    def to_answer(self, signing_public: DeviceKey) -> NoisePublic | None:
        """Return the noise key of a device whose messages are acknowledged (rule 4)."""
        return self.of(signing_public) or self._left_behind.get(signing_public)

    def hears(self, signing_public: DeviceKey) -> bool:
        """Say whether a device may speak of its link with this one: it is no stranger, and was not removed."""
        return signing_public in self._accepted_authors or signing_public in self._left_behind

    def may_be_board(self, signing_public: DeviceKey) -> bool:
        """Say whether any group lists a device as a board: most are none, and asked about with each message."""
        return signing_public in self._boards

    def longest_retries_us(self, now_us: int) -> dict[DeviceKey, int]:
        """Return how long at most what waits for each inviter waits to go again: it is of no use after the invite."""
        return {
            inviter: min(RETRY_US_MAX, max(JOIN_RETRY_US, (expires_at_us - now_us) // JOIN_TRIES))
            for inviter, expires_at_us in self._asked.items()
        }

    def part_from(self, members: Iterable[Member]) -> None:
        """Keep the addresses of former members until they know; boards get no notice."""
        owed = list(members)
        self.keep_notifying(owed)
        self._departed += [Departed(member.keys.signing_public, is_owed=True) for member in owed]

    def part_after(
        self, news: Iterable[GroupManifest], void: Iterable[Member], gone: Sequence[Member], *, is_out: bool
    ) -> None:
        """Part from devices that these manifests remove, or make void; some are owed nothing (rule 2).

        `is_out` means that this device is out, too. A device that left by itself is owed the acknowledgement of that.
        """
        left = {manifest.issuer for manifest in news if manifest.member(manifest.issuer) is None}
        unowed = [member for member in gone if is_out or member.keys.signing_public in left]
        self.part_from([*void, *(member for member in gone if member not in unowed)])
        if is_out:
            self.welcome(member.keys.signing_public for member in unowed)
        else:
            self.keep_notifying(unowed)
        self._departed += [Departed(member.keys.signing_public, is_owed=False) for member in unowed]

    def keep_notifying(self, members: Iterable[Member]) -> None:
        """Keep the addresses of devices in a group that this device leaves, until they know."""
        for member in members:
            if not member.is_board:
                self._records.departures.note(member.keys.signing_public, member.keys.noise_public)

    def notifies(self, signing_public: DeviceKey) -> bool:
        """Say whether a device that was parted from is not known to know it yet."""
        return any(key == signing_public for key, _ in self._records.departures.addresses())

    def receive_visitor(self, visitor: DeviceKeys) -> bool:
        """Give a device that asks for a public group an address for a while; False where too many have one."""
        if visitor.signing_public in self._accepted_authors:
            return True  # it shares a group with us
        if self.of(visitor.signing_public) is None and self._records.departures.visitors() >= PUBLIC_VISITORS:
            return False
        self._records.departures.note(visitor.signing_public, visitor.noise_public, VISIT_US)
        return True

    def welcome(self, signing_publics: Iterable[DeviceKey]) -> None:
        """Owe devices no notice any more: they are members again, or others tell them."""
        for key in signing_publics:
            self._records.departures.end(key)

    def take_departed(self) -> list[Departed]:
        """Return, once, the devices that were parted from."""
        departed, self._departed = self._departed, []
        return departed

    def end_departures(self) -> list[DeviceKey]:
        """Forget devices that know, or never will; return them: what still waits for them is to be dropped (rule 2)."""
        inviters = {pending.inviter.signing_public for pending in self._records.joins.pending()}
        ended = [key for key in self._records.departures.due(DEPARTURE_US) if key not in inviters]
        for key in ended:
            self._records.departures.end(key)
        return ended
