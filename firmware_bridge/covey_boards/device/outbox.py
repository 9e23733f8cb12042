"""What a board has signed and its collector has not acknowledged: in RAM, bounded. No port, no clock, no keys.

1. Only the collector's acknowledgement frees a message (docs/protocol/core.md, section 8). A message is signed once, and
   gets an envelope of its own each time that it goes.
2. New messages go in order and at once: the gateway has a disk, and is where a long absence of the relay is waited out.
   What the gateway took and lost goes again, one message for each retry time (section 18).
   Alarms leave first, and overtake at the gateway, too: that one has arrived says nothing of what was sent before it.
3. Beyond `bytes_max` the oldest goes. What the gateway never took is thinned (`thinning.py`), or is lost, and a LOSS
   record says so as soon as it can be sent. What the gateway took is waited for: it is lost if acknowledgements still
   leave it out `_MISSING_US` later.
   Batches of series that are kept whole go later, alarms last, and both only if the gateway has taken them: the others
   are bounded (`whole.py`, `alarms.py`).
4. A board's heap may end anywhere: what needs room comes before what is noted.
5. A restart forgets all of this, and begins a new incarnation: no sequence is ever given twice. What no gateway had
   taken is noted on flash before (`losses.py`).

The agent keeps the same promises in core/link/send_window.py; `device/__init__.py` says why in other code.
"""

try:
    from micropython import const
except ImportError:
    const = int

_RETRY_US = const(30_000_000)  # the gateway repeats what the relay loses; a board only what its gateway lost
_RETRY_US_MAX = const(300_000_000)
_MISSING_US = const(300_000_000)
_RANGES_MAX = const(64)
_LOSS_RANGES_MAX = const(16)


class Entry:
    """A signed message, what keeps it (1: its series is kept whole, 2: it is an alarm), whether it was sent and is under
    way, how often the gateway has taken it, and when it did last.
    """

    sent = carried = False
    thinned = ()  # ranges of link sequences that it takes the place of
    times = taken_us = 0

    def __init__(self, link_seq, message, is_telemetry, keep=0):
        self.link_seq = link_seq
        self.message = message
        self.is_telemetry = is_telemetry
        self.keep = keep


def without(ranges, others):
    """Return ranges (first, last), sorted, without what sorted `others` cover."""
    left = []
    for first, last in ranges:
        for start, end in others:
            if end < first or start > last:
                continue
            if start > first:
                left.append((first, start - 1))
            first = end + 1
        if first <= last:
            left.append((first, last))
    return left


def with_range(ranges, first, last):
    """Return sorted ranges with another one, joined where they touch."""
    joined = []
    for start, end in sorted(ranges + [(first, last)]):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


class Outbox:
    """The sending half of the one link that a board has.

    Args:
        bytes_max: of messages held.
        between: `between(low, high)` gives a random number from low to high, for the retry times.
        thin: `thin(message, link_seq)` takes a batch for a summary, and says whether it did.
    """

    def __init__(self, bytes_max, between, thin=None):
        self.bytes_max = bytes_max
        self.next_seq = 1
        self.entries = []
        self.size = self.repeated = self.dropped = self.thinned = 0
        self._between, self._thin = between, thin
        self._thinned = []  # in a summary that no gateway has yet
        self.next_number = 1  # of a telemetry batch
        self._records = []  # link sequences that have no number: all that is no telemetry
        self._records_passed = 0  # of them, before everything that is still held or to be told
        self._loss = None  # the record of loss that waits, and what it names
        self._named = []
        self._lost = []  # never to come, and no record says so yet
        self._entrusted = []  # only the gateway has them
        self._missing_since_us = None
        self._top = 0  # the highest link sequence that an acknowledgement has freed, alarms apart
        self._retry_us = _RETRY_US
        self._retry_at_us = None

    def add(self, message, is_telemetry=True, loss=(), keep=0):
        """Take the message that was signed with `next_seq`, telemetry with `next_number` in it; return its entry.

        What is no telemetry is never dropped, and makes nothing else go. One that says what `loss_to_write` named,
        `loss`, forgets that.
        Where the heap ends in it, older ones may be gone, and nothing is added.
        """
        while is_telemetry and self.size + len(message) > self.bytes_max and self._drop(self.entries, self._thin):
            pass
        entry = Entry(self.next_seq, message, is_telemetry, keep)
        records = self._records if is_telemetry else self._records_needed() + [self.next_seq]
        lost = without(self._lost, loss) if loss else self._lost
        self.entries.append(entry)
        if is_telemetry:
            self.next_number += 1
        else:
            self._records_passed += len(self._records) + 1 - len(records)
        if loss:
            self._loss, self._named = entry, loss
        self._records, self._lost = records, lost
        self.next_seq += 1
        self.size += len(message)
        return entry

    def _records_needed(self):
        oldest = self.entries[0].link_seq if self.entries else self.next_seq
        for span in self._named_untaken() + self._lost[:1] + self._entrusted[:1] + self._thinned[:1]:
            oldest = min(oldest, span[0])
        return [seq for seq in self._records if seq >= oldest]

    def drop_oldest(self):
        """Rule 3, without thinning, which takes heap; return whether there was one. Neither a record, nor the newest
        message, nor what is on its way.
        """
        return self._drop(self.entries[:-1])

    def _drop(self, entries, thin=None):
        oldest = None
        for entry in entries:
            if entry.is_telemetry and not entry.carried and (entry.times or not entry.keep):
                if oldest is None or entry.keep < oldest.keep:
                    oldest = entry
        if oldest is None:
            return False
        seq = oldest.link_seq
        if oldest.times:
            self._entrusted = with_range(self._entrusted, seq, seq)
        else:
            thinned = with_range(self._thinned, seq, seq)  # room for that first: what is taken has to be known
            if thin is not None and thin(oldest.message, seq):
                self._thinned = thinned
                self.thinned += 1
                self._forget(oldest)
                return True
            self._lost = with_range(self._lost, seq, seq)
        self._forget(oldest)
        self.dropped += 1
        return True

    def _forget(self, entry):
        self.entries.remove(entry)
        self.size -= len(entry.message)

    def loss_to_write(self):
        """Return the ranges that a record of loss should name now; one record waits at a time."""
        return [] if self._loss in self.entries else self._lost[:_LOSS_RANGES_MAX]

    def _named_untaken(self):
        """Return the first range that the waiting record names, unless the gateway has it: it is gone with a restart."""
        return [] if self._loss not in self.entries or self._loss.times else self._named[:1]

    def numbers_of(self, ranges):
        """Return the telemetry numbers of ranges of link sequences that hold telemetry only."""
        numbers = []
        for first, last in ranges:
            others = self._records_passed
            for seq in self._records:
                others += seq < first
            numbers = with_range(numbers, first - others, last - others)
        return numbers

    def untaken(self):
        """Return what no gateway has, from its oldest batch on: [first, last link sequence, first, last number]; or None."""
        places = [span[0] for span in self._named_untaken() + self._lost[:1] + self._thinned[:1]]
        for entry in self.entries:
            if entry.is_telemetry and not entry.times:
                places.append(entry.link_seq)
                break
        if not places:
            return None
        first = min(places)
        return [first, self.next_seq - 1, self.numbers_of([(first, first)])[0][0], self.next_number - 1]

    def due(self, now_us):
        """Return the entry that should go to the gateway now, or None; a repetition goes only while nothing else is in
        flight."""
        first = fewest = None
        under_way = False
        for entry in self.entries:
            under_way = under_way or entry.carried
            if not entry.times and not entry.carried and (first is None or entry.keep == 2 > first.keep):
                first = entry
            if fewest is None or entry.times < fewest.times:
                fewest = entry
        if first is not None or under_way:
            return first
        for entry in self.entries:  # section 8, sending, 5
            wait_us = min(_RETRY_US_MAX, _RETRY_US // 2 << min(entry.times - 1, 8))
            if entry.link_seq < self._top and now_us >= entry.taken_us + wait_us:
                return entry
        return None if self._retry_at_us is None or now_us < self._retry_at_us else fewest

    def taken(self, entry, now_us):
        """Note that the gateway has an entry."""
        entry.carried = False
        if entry.times:
            self.repeated += 1
            if self._retry_at_us is not None and now_us >= self._retry_at_us:
                self._retry_us = min(_RETRY_US_MAX, self._between(self._retry_us, 3 * self._retry_us))
                self._retry_at_us = now_us + self._retry_us
        entry.times += 1
        entry.taken_us = now_us
        if entry.thinned:
            self._thinned = without(self._thinned, entry.thinned)
        if self._retry_at_us is None:
            self._retry_at_us = now_us + self._retry_us

    def receive_acknowledgement(self, upto, ranges, now_us):
        """Free what the collector has; return the ranges that a RESUME should name (section 7)."""
        covered = [(1, upto)] + ranges
        freed = False
        for entry in self.entries[:]:
            if not without([(entry.link_seq, entry.link_seq)], covered):
                if entry.keep < 2:
                    self._top = max(self._top, entry.link_seq)
                self._forget(entry)
                freed = True
        if freed or not self.entries:
            self._retry_us = _RETRY_US
            self._retry_at_us = now_us + _RETRY_US if self.entries else None
        self._look_for_missing(covered, now_us)
        end = max(covered[-1][1], (self.entries[0].link_seq if self.entries else self.next_seq) - 1)
        gone = without([(1, end)], covered)
        for entry in self.entries:
            gone = without(gone, [(entry.link_seq, entry.link_seq)])
        return without(without(gone, self._entrusted), self._lost)[:_RANGES_MAX]

    def _look_for_missing(self, ranges, now_us):
        """Rule 3: what was left to the gateway arrives, or is lost."""
        self._entrusted = without(self._entrusted, ranges)
        missing = without(self._entrusted, [(self._top + 1, 1 << 62)])
        if not missing:
            self._missing_since_us = None
        elif self._missing_since_us is None:
            self._missing_since_us = now_us
        elif now_us - self._missing_since_us >= _MISSING_US:
            lost = self._lost
            for first, last in missing:
                lost = with_range(lost, first, last)
            self._entrusted, self._lost = without(self._entrusted, missing), lost
            self._missing_since_us = None
