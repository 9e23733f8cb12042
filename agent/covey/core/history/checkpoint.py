"""A part of a checkpoint, as an operation carries it (docs/protocol/history.md, "Checkpoints").

A state that is too long for one operation is divided: each part except the first follows only the part before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from covey.core import crypto
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError
from covey.limits.history import CHECKPOINT_PART_BYTES, CHECKPOINT_PARTS, MAXIMUM_OPERATION_BODY_BYTES

_DOMAIN = b"covey/1 state"
DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class CheckpointPart(OperationBody):
    """Bytes of a state: the part of that index, of `count` parts; `digest` is that of the whole state."""

    index: int
    count: int
    digest: bytes
    content: bytes = field(repr=False)
    kind = OperationKind.CHECKPOINT

    def to_wire(self) -> bytes:
        """Return the body `[index, count, digest, content]`."""
        return cbor.encode_growing([self.index, self.count, self.digest, self.content])

    @classmethod
    def from_wire(cls, body: bytes) -> CheckpointPart:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        part = cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
                "checkpoint",
                cbor.uint(CHECKPOINT_PARTS),
                cbor.uint(CHECKPOINT_PARTS),
                cbor.octets(DIGEST_BYTES),
                cbor.octets_to(CHECKPOINT_PART_BYTES),
            )
        )
        if part.index >= part.count:
            raise MalformedError("the checkpoint's part has a number above its last")
        return part

    def shown(self) -> dict[str, Any]:
        """Return which part of which state it is."""
        return {"text": f"part {self.index + 1} of {self.count} of the state {self.digest.hex()[:8]}"}


def state_digest(state: bytes) -> bytes:
    """Return the digest that names a state."""
    return crypto.digest(_DOMAIN, state)


def divided(state: bytes) -> list[CheckpointPart]:
    """Return the parts of a state, the first one first.

    Raises:
        LimitError: it has too many.
    """
    contents = [state[start : start + CHECKPOINT_PART_BYTES] for start in range(0, len(state), CHECKPOINT_PART_BYTES)]
    if len(contents) > CHECKPOINT_PARTS:
        raise LimitError(f"the checkpoint has more than {CHECKPOINT_PARTS} parts")
    digest = state_digest(state)
    return [CheckpointPart(index, len(contents), digest, content) for index, content in enumerate(contents)]
