"""How the firmwares stand that a board knows: what it says of one that it has no room to take. docs/protocol/boards.md, section 18.

Read at its start, so that nothing has to be loaded when one is announced: `core` compares digests.

1. One that runs, is on trial or was no good is known by `slot_state.py`.
2. So is the last one that was refused, by a file of its own, from the start that follows the refusal until the next one.
   Heap and flash may have room then, so it is looked at again, at three more starts: a board does not start anew for
   one again and again. `covey mcu flash` takes the file away.
"""

try:
    from covey_boards.shared import cbor

    from . import slot_state
except ImportError:
    import cbor
    import slot_state
try:
    from micropython import const
except ImportError:
    const = int

FILE = "refused.cbor"
_STARTS = const(3)


def known(storage):
    """Return the digests of what runs, of what is on trial, of what was no good and of what was refused, and why it was."""
    digest, why, starts, is_news = _refused(storage)
    if is_news:
        try:
            _write(storage, digest, why, starts, 0)
        except OSError:
            pass  # then it is news at the next start, too
    elif starts:
        digest, why = b"", ""
    return slot_state.read(storage)[3:] + [digest, why]


def remember(storage, digest, why):
    """Keep that one was refused, and why.

    Raises:
        OSError: the flash refused.
    """
    before, _, starts, _ = _refused(storage)
    _write(storage, digest, why, max(0, starts - 1) if digest == before else _STARTS, 1)


def _refused(storage):
    """Return [digest, why, at how many starts it is looked at again, whether no start has known of it]."""
    try:
        return cbor.record(cbor.decode(storage.read(FILE) or b"", 256), 32, str, (0, _STARTS), (0, 1))
    except cbor.WireError:
        return [b"", "", 0, 0]


def _write(storage, *fields):
    storage.write(FILE, cbor.encode(list(fields)))
