"""The table of link keys that others have given to this device."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import drop_oldest
from covey.core.ids import DeviceKey, NoisePublic
from covey.core.link.link_keys import KeptKey
from covey.limits.link_key import LINK_KEY_KEPT_US, LINK_KEYS_KEPT
from covey.limits.storage import LINKS_REMEMBERED


class LinkKeys:
    """The newest few keys of each author, sealed under a noise key of this device."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[bytes, KeptKey] = {}
        """What was read lately, sealed as it lies in the table."""
        database.remember_longer(self._kept.clear, self._bound)

    def _bound(self) -> None:
        drop_oldest(self._kept, LINKS_REMEMBERED)

    def find(self, tag: bytes) -> KeptKey | None:
        if tag in self._kept and self._database.holds():
            return self._kept[tag]
        rows = self._database.run("SELECT author, tag, noise_public, sealed FROM link_key WHERE tag = ?", (tag,))
        if not rows:
            return None
        found = KeptKey(*rows[0])
        if self._database.within:
            self._kept[tag] = found
        return found

    def save(self, key: KeptKey, now_us: int) -> None:
        """Keep a key, unless its tag is in use; the author's oldest may go."""
        self._database.run(
            "INSERT INTO link_key (author, tag, noise_public, sealed, taken_at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (tag) DO NOTHING",
            (key.author, key.tag, key.noise_public, key.sealed, now_us),
        )
        held = self._database.run("SELECT id FROM link_key WHERE author = ? ORDER BY id DESC", (key.author,))
        self._wipe([row[0] for row in held[LINK_KEYS_KEPT:]])

    def forget(self, is_peer: Callable[[DeviceKey], bool], noise_publics: set[NoisePublic], now_us: int) -> None:
        # A clock that was set by more than that, in either direction, is no reason to keep a key.
        self._wipe(
            identifier
            for identifier, author, noise_public, taken_at in self._database.run(
                "SELECT id, author, noise_public, taken_at FROM link_key"
            )
            if abs(now_us - taken_at) >= LINK_KEY_KEPT_US or noise_public not in noise_publics or not is_peer(author)
        )

    def _wipe(self, identifiers: Iterable[int]) -> None:
        """Delete keys, first overwriting them with zeros, because a freed page keeps its content."""
        self._kept.clear()
        for identifier in identifiers:
            self._database.run("UPDATE link_key SET sealed = zeroblob(length(sealed)) WHERE id = ?", (identifier,))
            self._database.run("DELETE FROM link_key WHERE id = ?", (identifier,))
