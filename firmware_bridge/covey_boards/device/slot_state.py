"""Which of a board's firmwares is good, and which is on trial: `slot.cbor`. docs/protocol/boards.md, section 18,
"Firmware".

The file is written whole or not at all, so a start finds the old firmware or the new one, even after a power cut.
"""

try:
    from covey_boards.shared import cbor
except ImportError:
    import cbor

FILE = "slot.cbor"
STARTS = 2
NAMES = ("", "slot_a", "slot_b")


def read(storage):
    """Return [good, trial or "", starts of that, digest of what is good, of what is on trial, of what was no good]."""
    try:
        fields = cbor.decode(storage.read(FILE) or b"", 256)
        good, trial, starts = cbor.record(fields, str, str, cbor.UINT, bytes, bytes, bytes)[:3]
        if good in NAMES and trial in NAMES and starts <= STARTS:
            return fields
    except cbor.WireError:
        pass
    return ["", "", 0, b"", b"", b""]


def write(storage, state):
    """Store it.

    Raises:
        OSError: the flash refused.
    """
    storage.write(FILE, cbor.encode(state))


def fall_back(storage):
    """Have the good firmware start from now on."""
    good, _, _, good_id, trial_id, _ = read(storage)
    write(storage, [good, "", 0, good_id, b"", trial_id])


def keep(storage):
    """Have the firmware that is on trial be the good one from now on."""
    _, trial, _, _, trial_id, failed_id = read(storage)
    if trial:
        write(storage, [trial, "", 0, trial_id, b"", failed_id])


class Trial:
    """The firmware that runs is on trial, until a time in microseconds since boot."""

    def __init__(self, storage, until_us):
        self._storage, self._ends_us = storage, until_us

    def turn(self, board, now_us):
        """Keep it once the collector has acknowledged something; go back when the time is over."""
        if board.counters["acknowledgements"]:
            board.trial = None
            keep(self._storage)
            board.known[:3] = read(self._storage)[3:]
        elif now_us >= self._ends_us:
            board.trial = None
            fall_back(self._storage)
            board.restart_wanted = "no word of its collector came in time: back to the firmware of before"
