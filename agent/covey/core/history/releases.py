"""Operators' changes of a running release: pause, abort or resume.

On the wire `[once, state, why, accepted, stop-percent / null]`. `once` is the once-id that all its waves carry.
`core/orders/release_standing.py` computes the effect on devices and other operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import ONCE_BYTES
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_RELEASE_WHY_BYTES, MAXIMUM_SELECTED_DEVICES


class ReleaseState(IntEnum):
    """What a release is to do."""

    GOING = 0
    """It continues, as far as its author knew of objections."""
    PAUSED = 1
    """Devices that have not started wait."""
    ABORTED = 2
    """Devices that have not started never start; this is permanent."""


@dataclass(frozen=True, slots=True)
class ReleaseChange(OperationBody):
    """The ordered state of a release.

    It continues in spite of the devices `accepted`, which no longer count; `stop_percent` is another limit for it.
    """

    once: bytes
    state: ReleaseState
    why: str = ""
    accepted: tuple[DeviceKey, ...] = field(default=())
    stop_percent: int | None = None
    kind = OperationKind.RELEASE

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([self.once, int(self.state), self.why, list(self.accepted), self.stop_percent])

    @classmethod
    def from_wire(cls, body: bytes) -> ReleaseChange:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        once, state, why, accepted, stop_percent = cbor.record(
            cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
            "release",
            cbor.octets(ONCE_BYTES),
            cbor.uint(max(ReleaseState)),
            cbor.text(MAXIMUM_RELEASE_WHY_BYTES),
            cbor.many(cbor.octets(KEY_BYTES), MAXIMUM_SELECTED_DEVICES),
            cbor.optional(cbor.uint(100)),
        )
        if list(accepted) != sorted(set(accepted)):
            raise MalformedError("devices must ascend and be distinct")
        if state != ReleaseState.GOING and (accepted or stop_percent is not None):
            raise MalformedError("only a release that continues may accept failures")
        return cls(once, ReleaseState(state), why, tuple(map(DeviceKey, accepted)), stop_percent)

    def shown(self) -> dict[str, Any]:
        """Return the state of the release, and why."""
        why = f": {self.why}" if self.why else ""
        return {"text": f"release {self.once.hex()[:8]} is {self.state.name.lower()}{why}"}

    def order_row(self) -> dict[str, Any]:
        """Return the release and its state."""
        return {
            "subject": self.once.hex(),
            "value": self.state.name.lower(),
            "secret": False,
            "once": self.once.hex(),
        }
