"""The firmwares that a board knows: what it reports of one that it has no room to load. docs/protocol/boards.md,
section 18.

Read at start, so that an announcement loads nothing: `core` compares digests.

1. `slot_state.py` knows those that run, are on trial or failed.
2. The last refused one is in a file of its own, from the start after the refusal until the next one. Heap and flash may
   have room then, so it is tried again, at three more starts, not endlessly. `covey mcu flash` deletes the file.
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
