"""The state of a command on a device, and its report (docs/protocol/history.md, "Commands").

`ORDER_RESULT`: `[order, state, exit, output, cut, taken-at, started-at, ended-at, synchronised, code, why]`. `order` is
the operation that is answered, in the group of the message; `exit` the program's exit code, or below 0 the signal that
ended it. Times are microseconds since 1970 by the device's clock; `synchronised` says whether that clock was reliable
at each of them.

For a board its gateway reports `[result, board, signature / null]`: `result` is the encoding of the above, which the
board has signed, with the key as a twelfth field if the order is a setting; null: the gateway reports it in the board's
place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from covey.core import crypto
from covey.core.ids import KEY_BYTES, DeviceKey, OperationId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES, MAXIMUM_RESULT_CODE_BYTES, MAXIMUM_RESULT_WHY_BYTES
from covey.limits.board import MAXIMUM_BOARD_RESULT_BYTES
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES

NOT_ALLOWED = "action_not_allowed"
NOT_DEFINED = "action_not_defined"
ARGUMENTS = "action_arguments"
SEALED = "action_sealed"
NOT_SECRET = "action_not_secret"  # noqa: S105 - a code of a refusal
LATE = "action_late"
CLOCK = "action_clock"
REVOKED = "action_revoked"
REPEATED = "action_repeated"
QUEUE_FULL = "action_queue_full"
NOT_STARTED = "action_not_started"
TIME = "action_time"
AGENT_ENDED = "action_agent_ended"
WENT_DOWN = "action_went_down"
RECORDS_LOST = "action_records_lost"
NOT_FETCHED = "action_not_fetched"
ROLLED_BACK = "action_rolled_back"
NOT_ROLLED_BACK = "action_not_rolled_back"
WITHDRAWN = "action_withdrawn"
FORGOTTEN = "action_forgotten"

_BOARD_DOMAIN = b"covey/1 board result"
_BOARD_FIELDS = 3
_SETTING_FIELDS = 12
_OPERATION_BYTES = 32
_EXIT_CODES = range(-255, 256)
_RESULT_BYTES = MAXIMUM_ACTION_OUTPUT_BYTES + MAXIMUM_RESULT_CODE_BYTES + MAXIMUM_RESULT_WHY_BYTES + 128


class CommandState(IntEnum):
    """The state of a command on a device. The first two are the device's own, and never reported."""

    WAITING = 0
    BEGUN = 1
    """It is intended, and perhaps done: this is stored before the program starts."""
    DONE = 2
    """Its program has ended, well or not: its exit code says so."""
    STOPPED = 3
    """Its program was ended by the device, for the reason that the code gives."""
    REFUSED = 4
    """Nothing was done, for the reason that the code gives."""
    UNKNOWN = 5
    """The device cannot know: it may be done, half done, or not begun. It is never repeated."""


FINAL = (CommandState.DONE, CommandState.STOPPED, CommandState.REFUSED, CommandState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class End:
    """How a command has ended on this device."""

    state: CommandState
    code: str = ""
    why: str = ""
    exit: int | None = None
    output: bytes = field(default=b"", repr=False)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What one device reports of one command."""

    order: OperationId
    state: CommandState
    taken_us: int
    """When the device took the command up."""
    ended_us: int
    """When it came to this."""
    started_us: int | None = None
    """When its program was to start; None where none was."""
    synchronised: bool = False
    exit: int | None = None
    output: bytes = field(default=b"", repr=False)
    """The beginning of what its program wrote; `cut`: there was more."""
    cut: bool = False
    code: str = ""
    why: str = ""
    setting: str = ""
    """The key where the order is a setting, which a board's only are."""
    board: DeviceKey | None = None
    """Whose result it is, where its gateway reports it."""
    signature: bytes | None = field(default=None, repr=False)
    """The board's; None where the gateway says it in its stead."""

    def to_wire(self) -> bytes:
        """Return the body."""
        own = self._own()
        return own if self.board is None else cbor.encode([own, self.board, self.signature])

    def _own(self) -> bytes:
        return cbor.encode(
            [
                *(self.order, int(self.state), self.exit, self.output, self.cut),
                *(self.taken_us, self.started_us, self.ended_us, self.synchronised, self.code, self.why),
                *([self.setting] if self.setting else []),
            ]
        )

    @classmethod
    def from_wire(cls, body: bytes) -> OrderResult:
        """Parse the body, and verify what a board has signed.

        Raises:
            RemoteError: malformed, beyond a bound, one that contradicts itself, or not signed by the board.
        """
        value = cbor.decode_growing(body, _RESULT_BYTES)
        if not isinstance(value, list) or len(value) != _BOARD_FIELDS:
            return cls._read(value)
        signed, board, signature = cbor.record(
            value,
            "board result",
            cbor.octets_to(MAXIMUM_BOARD_RESULT_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.optional(cbor.octets(crypto.SIGNATURE_BYTES)),
        )
        if signature is not None:
            crypto.verify(_BOARD_DOMAIN, signed, signature, DeviceKey(board))
        own, setting = cbor.decode_growing(signed, MAXIMUM_BOARD_RESULT_BYTES), ""
        if isinstance(own, list) and len(own) == _SETTING_FIELDS:
            *own, named = own
            setting = cbor.text(MAXIMUM_SETTING_KEY_BYTES)(named)
        result = replace(cls._read(own), setting=setting, board=board, signature=signature)
        if signature is None and result.state not in {CommandState.REFUSED, CommandState.UNKNOWN}:
            raise MalformedError("only a board may report its own result")
        return result

    @classmethod
    def _read(cls, value: object) -> OrderResult:
        order, state, exit_code, output, cut, taken_us, started_us, ended_us, synchronised, code, why = cbor.record(
            value,
            "order result",
            cbor.octets(_OPERATION_BYTES),
            cbor.uint(255),
            cbor.optional(cbor.integer),
            cbor.octets_to(MAXIMUM_ACTION_OUTPUT_BYTES),
            cbor.boolean,
            cbor.uint(),
            cbor.optional(cbor.uint()),
            cbor.uint(),
            cbor.boolean,
            cbor.text(MAXIMUM_RESULT_CODE_BYTES),
            cbor.text(MAXIMUM_RESULT_WHY_BYTES),
        )
        if state not in FINAL:
            raise MalformedError(f"command state {state}: a newer Covey?")
        if exit_code is not None and exit_code not in _EXIT_CODES:
            raise MalformedError("no exit code")
        done = state == CommandState.DONE
        if done != (exit_code is not None) or done == bool(code):
            raise MalformedError("a finished command must have only an exit code, any other must have none")
        if state in {CommandState.DONE, CommandState.STOPPED} and started_us is None:
            raise MalformedError("a finished command must have a start time")
        if state == CommandState.REFUSED and (started_us is not None or output):
            raise MalformedError("a refused command must not have a start time")
        return cls(
            OperationId(order),
            CommandState(state),
            taken_us,
            ended_us,
            started_us,
            synchronised,
            exit_code,
            output,
            cut,
            code,
            why,
        )


def as_remembered(result: OrderResult) -> OrderResult:
    """Return a result as its device remembers it once it is reported: of its output, that there was some.

    A board's is short, and signed with it.
    """
    return result if result.board is not None else replace(result, output=b"", cut=result.cut or bool(result.output))


IN_WORDS = ("done", "failed", "refused", "unknown")
"""Results of commands in words."""


def in_words(result: OrderResult) -> str:
    """Return one of `IN_WORDS`: what the device ended has failed, and what ended with another code than 0."""
    if result.state is CommandState.STOPPED or result.exit:
        return "failed"
    return result.state.name.lower()


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result as it is kept: whose it is, when it came, and how long its output was.

    `judged` says that the order was here when it came. `result` has no output; that is read by itself.
    """

    id: int
    device: DeviceKey
    received_at_us: int
    judged: bool
    output_bytes: int
    output_kept: bool
    result: OrderResult
