"""What a node does with keys: its own noise keys, which it replaces and wipes, and link keys, which it forgets."""

from __future__ import annotations

from collections.abc import Callable

from covey.core.crypto import Identity
from covey.core.group.messages import GroupSend
from covey.core.link.sender import Sending
from covey.core.membership.membership import Membership
from covey.core.membership.rotation import announce_everywhere, wiped
from covey.core.now import Now
from covey.core.records import Records


class KeyKeeping:
    """Part of `Node`."""

    identity: Identity
    membership: Membership
    _records: Records
    _rng: Callable[[int], bytes]
    _sending: Sending

    def _queue_all(self, sends: list[GroupSend], now: Now) -> None:
        raise NotImplementedError

    def rotate_noise_key(self, now: Now) -> None:
        """Tell every group the noise key that is current now; it must be stored already. Inside a transaction."""
        self._queue_all(announce_everywhere(self.membership, self.identity, self._records, now.wall_us), now)

    def noise_keys_to_wipe(self, now: Now) -> list[bytes]:
        """Return the retired noise keys that nothing needs any more."""
        return wiped(self.membership, self.identity, self._records, now.wall_us)

    def forget_link_keys(self, now: Now) -> None:
        """Wipe the link keys that nobody is to use any more (`link_keys.py`, rule 6). Inside a transaction."""

        def is_peer(device: bytes) -> bool:
            return not self.membership.shares_nothing_with(device)

        noise_publics = {key.public for key in self.identity.noise.keys}
        self._records.link_keys.forget(is_peer, noise_publics, now.wall_us)
        self._sending.link_keys.keep(is_peer)
