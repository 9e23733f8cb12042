"""The packets between the agent and `covey-action@.service`, one each way (docs/how-to/orders.md).

The agent names an action, its arguments and its secret ones: `[action, [[name, value], …], [[name, value], …]]`;
without secret ones, the last list is left out. The answer is how that ended, with the beginning of the output:
`[outcome, exit, output, cut, code, why]`. If the agent closes its side, or is gone, the program is ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES, MAXIMUM_RESULT_CODE_BYTES, MAXIMUM_RESULT_WHY_BYTES
from covey.limits.orders import (
    MAXIMUM_ACTION_BYTES,
    MAXIMUM_ARGUMENT_BYTES,
    MAXIMUM_ARGUMENT_NAME_BYTES,
    MAXIMUM_ARGUMENTS,
)

REQUEST_BYTES = (
    MAXIMUM_ACTION_BYTES + 2 * MAXIMUM_ARGUMENTS * (MAXIMUM_ARGUMENT_NAME_BYTES + MAXIMUM_ARGUMENT_BYTES + 8) + 16
)
_OPEN_FIELDS = 2
ANSWER_BYTES = MAXIMUM_ACTION_OUTPUT_BYTES + MAXIMUM_RESULT_CODE_BYTES + MAXIMUM_RESULT_WHY_BYTES + 64


class ActionOutcome(IntEnum):
    """How it went."""

    ENDED = 0
    TIMED_OUT = 1
    REFUSED = 2
    """Nothing was begun."""
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """The result of an action; `exit` is an exit code, or below 0 a signal."""

    outcome: ActionOutcome
    exit: int = 0
    output: bytes = field(default=b"", repr=False)
    cut: bool = False
    code: str = ""
    why: str = ""

    def to_wire(self) -> bytes:
        """Return the packet."""
        why = self.why.encode()[:MAXIMUM_RESULT_WHY_BYTES].decode(errors="ignore")
        return cbor.encode([int(self.outcome), self.exit, self.output, self.cut, self.code, why])

    @classmethod
    def from_wire(cls, packet: bytes) -> ActionAnswer:
        """Parse a packet.

        Raises:
            RemoteError: it is none.
        """
        outcome, exit_code, output, cut, code, why = cbor.record(
            cbor.decode(packet, ANSWER_BYTES),
            "answer",
            cbor.uint(max(ActionOutcome)),
            cbor.integer,
            cbor.octets_to(MAXIMUM_ACTION_OUTPUT_BYTES),
            cbor.boolean,
            cbor.text(MAXIMUM_RESULT_CODE_BYTES),
            cbor.text(MAXIMUM_RESULT_WHY_BYTES),
        )
        return cls(ActionOutcome(outcome), exit_code, output, cut, code, why)


def to_request(action: str, arguments: Mapping[str, str], secrets: Mapping[str, str]) -> bytes:
    """Return the packet that asks for an action."""
    fields = [_pairs(arguments), _pairs(secrets)] if secrets else [_pairs(arguments)]
    return cbor.encode([action, *fields])


def _pairs(arguments: Mapping[str, str]) -> list[list[str]]:
    return sorted([name, value] for name, value in arguments.items())


def read_request(packet: bytes) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return which action is asked for, its arguments, and its secret ones.

    Raises:
        RemoteError: it is no request.
    """
    value = cbor.decode(packet, REQUEST_BYTES)
    has_secrets = isinstance(value, list) and len(value) > _OPEN_FIELDS
    secrets = [_arguments] if has_secrets else []
    action, arguments, *further = cbor.record(value, "request", cbor.text(MAXIMUM_ACTION_BYTES), _arguments, *secrets)
    return action, arguments, *(further or [{}])


def _arguments(value: object) -> dict[str, str]:
    pairs = cbor.many(_pair, MAXIMUM_ARGUMENTS)(value)
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        raise MalformedError("the request names an argument twice")
    return arguments


def _pair(value: object) -> tuple[str, str]:
    name, given = cbor.record(
        value, "argument", cbor.text(MAXIMUM_ARGUMENT_NAME_BYTES), cbor.text(MAXIMUM_ARGUMENT_BYTES)
    )
    return name, given
