"""A damaged list of older segments of a vault (a range object): make it again from the segments themselves.

1. A range is sealed under a nonce of its content: the same entries give the same bytes, and the signed manifest says
   their hash. So what is made is compared with that, and a store that shows wrong segments changes nothing.
2. Of several segments that begin at a position, the one that covers most is tried first: merging leaves the replaced
   ones lying for a week.
3. Entries of thinned segments and of holes say more than these do: a range with one is restored only from a copy. So it
   is where a segment is damaged, too, or where the range was sealed under a key that is gone.
4. It may have to read a thousand segments: the caller takes a step for each, and goes on in the next look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, node_id
from covey.core.vault import documents
from covey.core.vault.entries import positions_of_segment_key
from covey.core.vault.segments import entry_of, merged_entry_of
from covey.errors import LimitError, RemoteError
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES

if TYPE_CHECKING:
    from covey.core.vault.documents import SegmentEntry, SegmentRange
    from covey.core.vault.keys import KeyRing
    from covey.ports import ObjectStore


class RemadeRange:
    """One range that is being made again: iterate for the bytes that each step has read, then ask for `content`."""

    def __init__(self, ring: KeyRing, public: DeviceKey, objects: ObjectStore, named: SegmentRange) -> None:
        self.named = named
        self.content: bytes | None = None
        """The range, once the last step was taken; None where it cannot be made."""
        self._ring = ring
        self._public = public
        self._objects = objects

    def steps(self) -> Iterator[int]:
        """Read segment after segment; yield how many bytes each read took.

        Raises:
            StorageError: the vault cannot be read now.
        """
        beginning: dict[int, list[tuple[int, str]]] = {}
        for key in self._objects.keys(documents.segment_prefix(self._ring.vault_id, node_id(self._public))):
            found = positions_of_segment_key(key)
            if found is not None and self.named.first <= found[0] <= found[1] <= self.named.last:
                beginning.setdefault(found[0], []).append((found[1], key))
        yield 0
        entries: list[SegmentEntry] = []
        position = self.named.first
        while position <= self.named.last:
            for _, key in sorted(beginning.get(position, []), reverse=True):
                entry, size = self._entry(key)
                yield size
                if entry is not None:
                    entries.append(entry)
                    position = entry.number + 1
                    break
            else:
                return
        for vault_key in self._ring.keys:
            named, content = documents.seal_range(vault_key, self._public, tuple(entries))
            if named == self.named:
                self.content = content

    def _entry(self, key: str) -> tuple[SegmentEntry | None, int]:
        found = positions_of_segment_key(key)
        try:
            content = self._objects.get(key, MAXIMUM_SEGMENT_BYTES)
        except LimitError:
            content = None
        if content is None or found is None:
            return None, 0
        first, last, incarnation = found
        try:
            sealed_by = self._ring.for_object(content)
            if incarnation is not None:
                return entry_of(sealed_by, self._public, first, incarnation, content), len(content)
            entry = merged_entry_of(sealed_by, self._public, (first, last), content)
        except RemoteError:
            return None, len(content)
        node = node_id(self._public)
        return (entry if documents.entry_key(self._ring.vault_id, node, entry) == key else None), len(content)
