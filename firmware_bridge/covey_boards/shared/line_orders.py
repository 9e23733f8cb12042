"""Messages of the line that a board reads rarely, about orders and firmware, or never: its own (docs/protocol/boards.md,
section 18).

A board loads this when an order or a firmware arrives; `messages` has what it needs all the time.
"""

try:
    from .messages import CARRY, IDENTIFY, MESSAGE_BYTES_MAX, REPORT, TROUBLE
    from .messages import from_line as _from_line
    from .cbor import UINT, WireError, decode, record
except ImportError:
    from cbor import UINT, WireError, decode, record
    from messages import CARRY, IDENTIFY, MESSAGE_BYTES_MAX, REPORT, TROUBLE
    from messages import from_line as _from_line

OPERATORS_FILE = "operators.cbor"  # whom enrolment pinned, as it came over the line; `core` writes it
RESULT, PROGRESS, SLEEP, ALARM = 5, 6, 7, 8  # from the board; `core` knows ALARM by its number
OPERATORS, ORDER, FIRMWARE, PART = 20, 21, 22, 23  # from the gateway; `core` knows them by their numbers

_SHAPES = {
    IDENTIFY: (32, 32, 64, 32, str),  # signing key, noise key, proof, whom it is enrolled for or zeros, software
    CARRY: (32, bytes),  # recipient's signing key, envelope
    ALARM: (32, bytes),  # the same, of alarms that no gateway has yet
    REPORT: (list,),  # [[name, number], ...]
    TROUBLE: (str,),  # what went wrong, for people
    RESULT: (bytes, 64),  # what became of an order, and the board's signature of that
    PROGRESS: (32, (0, 4), UINT, str),  # which firmware, how it stands, how far it has come, and why
    SLEEP: ((0, 86_400_000),),  # for so many milliseconds; 0: it is awake
    OPERATORS: ((1, 4), list),  # how many have to sign an order, and who may
    ORDER: (list,),  # an operation, and approvals of it
    FIRMWARE: (bytes,),  # signature, signer and header of a firmware
    PART: (UINT, bytes),  # of its contents, from a place on
}


_KINDS = bytes(_SHAPES)


def from_line(raw):
    """Return [kind, field, ...] of any message of the line.

    Raises:
        WireError: it is none.
    """
    if raw[1:2] not in _KINDS:
        return _from_line(raw)
    value = decode(raw, MESSAGE_BYTES_MAX)
    kind = value[0] if isinstance(value, list) and value else None
    return record(value, (kind, kind), *_SHAPES.get(kind, (None,)))


def read_pinned(storage):
    """Return how many operators have to sign an order, and who they are, by their keys."""
    try:
        return from_line(storage.read(OPERATORS_FILE) or b"")[1:]
    except WireError:
        return [1, []]
