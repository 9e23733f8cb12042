"""SPAKE2 on Ed25519: two parties that share a short secret derive a long one (docs/protocol/groups.md, "Pairing").

The only importer of the `spake2` package, which costs 8 MB and is loaded when a ceremony begins. On the wire an element
has 32 bytes; the package's letter for the side is not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from covey.errors import MalformedError, MissingPackageError

ELEMENT_BYTES = 32

_INVITER, _JOINER = b"covey/1 inviter", b"covey/1 joiner"


class Side(Enum):
    """Who one is; the protocol's two sides differ, so that nothing can be reflected."""

    INVITER = b"A"
    JOINER = b"B"


class Pake:
    """One side of one exchange: one element out, one in, one key. A second guess needs a new exchange."""

    def __init__(self, side: Side, password: bytes, rng: Callable[[int], bytes]) -> None:
        """Draw this side's element.

        Raises:
            MissingPackageError: the package is not there.
        """
        try:
            import spake2
        except ModuleNotFoundError as error:
            raise MissingPackageError("pairing", error.name or "spake2") from error
        kind = spake2.SPAKE2_A if side is Side.INVITER else spake2.SPAKE2_B
        self._other = Side.JOINER if side is Side.INVITER else Side.INVITER
        self._exchange = kind(password, idA=_INVITER, idB=_JOINER, entropy_f=rng)
        self.element: bytes = self._exchange.start()[1:]

    def __repr__(self) -> str:
        return "Pake(...)"

    def finish(self, element: bytes) -> bytes:
        """Return the 32-byte key. Whether the other side has the same, only a confirmation shows.

        Raises:
            MalformedError: the element is none of the group, or our own.
        """
        assert len(element) == ELEMENT_BYTES
        try:
            return bytes(self._exchange.finish(self._other.value + element))
        except Exception as error:  # hostile bytes make the package raise bare exceptions of its own
            raise MalformedError("not a valid group element") from error
