"""Readings of series that are kept whole. Loaded if a rule of `covey.json` has `keep whole`.

1. They have batches of their own, which `outbox.py` never thins, nor drops before a gateway has taken them.
2. Such a batch is closed when it is full, or as old as others get; while no gateway is there, only when it is full, as
   each message takes room of its own.
3. Those that no gateway has taken fill half of the outbox, and one more message, as alarms do. Then the oldest stay,
   and what the open batch has no room for either is refused: counted, told to people, and lost in the ledger.
4. What is refused until a record of loss tells of it is one batch of the ledger: it takes a number, and is never made.

The agent does the same in app/telemetry/publisher.py, but refuses readings of all series then; here the windows of the
others (`thinning.py`) are not in the outbox, and go on.
"""

try:
    from covey_boards.shared.batch import Batch

    from .alarms import matches
    from .outbox import with_range, without
except ImportError:
    from batch import Batch
    from alarms import matches
    from outbox import with_range, without
try:
    from micropython import const
except ImportError:
    const = int

_TURN_US = const(10_000_000)  # as in `core`


class Whole:
    """The open batch of these series.

    Args:
        keeps: as `series_rules.read_rules` gives them.
        board: a `core.Core`.
    """

    keep = 1  # of their messages, in `outbox.Entry`

    def __init__(self, keeps, board):
        self.keeps = keeps
        self.refused = 0  # the link sequence of the newest batch that was never made
        self._board = board
        board.counters.setdefault("refused_readings", 0)
        self.batch, self._next, self._is_full = self._empty(), None, False

    def add(self, *reading):
        """Take a reading into the batch of its series, or refuse it (rule 3); return False where it has to wait.

        Raises:
            TypeError, ValueError: as `Batch.add`.
        """
        board = self._board
        if not self.names(reading[0]):
            return board._batch.add(*reading)
        if self.batch.add(*reading):
            return True
        self._is_full = True
        if self._has_room():
            return False
        is_news = self.refuse()
        board.counters["refused_readings"] += 1
        board.reporting.trouble = "series: no room for all that is kept whole"
        if is_news:
            board._note_losses()
        return True

    def names(self, name):
        """Say whether a series is kept whole: by the first rule with `keep` that names it."""
        for pattern, keep in self.keeps:
            if matches(pattern, name):
                return keep == 2
        return False

    def refuse(self):
        """Count a batch as lost (rule 4); return whether it is another one."""
        outbox, seq = self._board.outbox, self.refused
        if seq and not without([(seq, seq)], outbox._lost):
            return False
        outbox._lost = with_range(outbox._lost, outbox.next_seq, outbox.next_seq)
        self.refused = outbox.next_seq
        outbox.next_seq += 1
        outbox.next_number += 1
        outbox.dropped += 1
        return True

    def end(self):
        """Count what is open as lost: there is no room for it, and no gateway before a restart."""
        if self.batch.count:
            self.refuse()

    def _empty(self):
        return Batch(self._board._settings.batch_bytes)

    def _has_room(self):
        outbox = self._board.outbox
        untaken = [len(each.message) for each in outbox.entries if each.keep == 1 and not each.times]
        return 2 * sum(untaken) < outbox.bytes_max

    def due(self, now_us):
        """Say whether the batch should become a message now."""
        board = self._board
        if not self.batch.count or not self._has_room():
            return False
        if board._restarting is not None:
            return True
        if board._up and board._ahead >= board._ahead_max() and now_us < board._turn_us:
            return False
        is_awaited = board._up or board.sleeping is not None
        return self._is_full or is_awaited and now_us >= self.batch.opened_us + board._settings.batch_us

    def body(self, *clock):
        """Return the body of the batch; the arguments are those of `Batch.body`."""
        if self._next is None:
            self._next = self._empty()  # later the heap might end, and this one would go again
        return self.batch.body(*clock)

    def closed(self, now_us):
        """Begin another batch: this one is a message now."""
        self.batch, self._next, self._is_full = self._next, None, False
        board = self._board
        board._ahead, board._turn_us = min(board._ahead + 1, board._ahead_max()), now_us + _TURN_US
