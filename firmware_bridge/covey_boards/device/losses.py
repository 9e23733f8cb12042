"""Batches that the next incarnation has to report as lost: noted on flash while no gateway accepts any.

1. While the gateway accepts messages, nothing is written. An outage is noted as soon as the line is silent, and each
   time it has grown by half: of a power cut's losses two thirds are then known, at seventeen writes for a day of
   batches each minute. Before a restart of our own the exact state is noted; with the last accepted batch the note is
   deleted.
2. An incarnation begins with the notes of earlier ones. Each goes to the collector as a signed LOSS that names its
   incarnation, and stays on flash until that is acknowledged.
3. A record's `seq` has to be beyond the places that it names (docs/protocol/core.md, section 7): ours begins after
   them.

Loaded at the first outage, or if there are notes.
"""

try:
    from covey_boards.shared import cbor, messages
except ImportError:
    import cbor
    import messages
try:
    from micropython import const
except ImportError:
    const = int

_NOTES_MAX = const(8)  # lives without a gateway; the oldest are forgotten


def _read(storage):
    """Return notes: [incarnation, first and last link sequence, first and last number of a batch]."""
    try:
        notes = cbor.record(cbor.decode(storage.read(messages.LOSSES_FILE), 1_024), (1, 1), list)[1]
        return [cbor.record(note, 8, cbor.UINT, cbor.UINT, cbor.UINT, cbor.UINT) for note in notes]
    except (cbor.WireError, TypeError):  # damaged, or none
        return []


class Outages:
    """The notes of earlier lives, and of this one.

    Args:
        storage: as `core.Core` has it.
        incarnation: of this life.
    """

    def __init__(self, storage, incarnation):
        self._storage, self._incarnation = storage, incarnation
        self._notes = _read(storage)[-_NOTES_MAX + 1 :]
        self.offset = max([note[2] for note in self._notes] + [0])  # of `seq`
        self.entry = None  # the record that waits for its acknowledgement
        self._noted = None  # of this life

    def note(self, untaken, up, now, ahead):
        """Note what no gateway has, as `Outbox.untaken` gives it; `now` says that a restart comes.

        Of a gateway that is there, one batch more than `ahead` may be missing without an outage.

        Raises:
            OSError: the flash refused.
        """
        count = untaken[3] - untaken[2] + 1 if untaken else 0
        noted = self._noted[3] - self._noted[2] + 1 if self._noted else 0
        grown = count >= noted + max(1, noted // 2) and (noted or not up or count > ahead + 1)
        if untaken != self._noted and (now or grown or not count):
            self._write(self._notes, untaken)
            self._noted = untaken

    def _write(self, notes, untaken):
        own = [[self._incarnation] + untaken] if untaken else []
        self._storage.write(messages.LOSSES_FILE, cbor.encode([1, notes + own]) if notes or own else b"")

    def due(self):
        """Say whether a record should be written."""
        return bool(self._notes) and self.entry is None

    def body(self):
        """Return the body of the next record."""
        incarnation, first, last, number, last_number = self._notes[0]
        return messages.write_loss(messages.DAMAGED, [(first, last)], [(number, last_number)], incarnation)

    def heard(self, entries):
        """Forget a note whose record does not wait any more.

        Raises:
            OSError: the flash refused; the record comes once more in the next life.
        """
        if self.entry is not None and self.entry not in entries:
            self.entry = None
            self._notes.pop(0)
            self._write(self._notes, self._noted)
