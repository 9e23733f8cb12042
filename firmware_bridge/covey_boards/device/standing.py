"""How the firmwares stand that a board knows: what it says of one that it has no room to take. docs/protocol.md, section 18.

Read at its start, so that nothing has to be loaded when one is announced: `core` compares digests.

1. One that runs, is on trial or was no good is known by `slot_state.py`.
2. So is the last one that was refused, by a file of its own: a board does not start anew for it again and again.
   `covey mcu flash` takes that away.
"""

try:
    from covey_boards.shared import cbor

    from . import slot_state
except ImportError:
    import cbor
    import slot_state

FILE = "refused.cbor"


def known(storage):
    """Return the digests of what runs, of what is on trial, of what was no good and of what was refused, and why it was."""
    try:
        refused = cbor.record(cbor.decode(storage.read(FILE) or b"", 256), 32, str)
    except cbor.WireError:
        refused = [b"", ""]
    return slot_state.read(storage)[3:] + refused


def remember(storage, digest, why):
    """Keep that one was refused, and why, unless that is known.

    Raises:
        OSError: the flash refused.
    """
    raw = cbor.encode([digest, why])
    if storage.read(FILE) != raw:
        storage.write(FILE, raw)
