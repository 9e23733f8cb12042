"""What a board has signed and its collector has not acknowledged: in RAM, bounded. No port, no clock, no keys.

1. Only the collector's acknowledgement frees a message (docs/protocol.md, section 8). A message is signed once and
   sealed anew each time that it goes.
2. New messages go in order and at once: the gateway has a disk, and is where a long absence of the relay is waited out.
   What the gateway took and lost goes again, one message for each retry time (section 18).
3. Beyond `bytes_max` the oldest goes. What the gateway never took is lost, and a LOSS record says so as soon as it can
   be sent. What the gateway took is waited for: it is lost if acknowledgements still leave it out `MISSING_US` later.
4. A restart forgets all of this, and begins a new incarnation: no sequence is ever given twice.
"""

RETRY_US = 30_000_000  # the gateway repeats what the relay loses; a board only what its gateway lost
RETRY_US_MAX = 300_000_000
MISSING_US = 300_000_000
RANGES_MAX = 64


class Entry:
    """A signed message, how often the gateway has taken it, and when it did last."""

    def __init__(self, link_seq, message, is_loss):
        self.link_seq = link_seq
        self.message = message
        self.is_loss = is_loss
        self.times = 0
        self.taken_us = 0


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
    """

    def __init__(self, bytes_max, between):
        self.bytes_max = bytes_max
        self.next_seq = 1
        self.entries = []
        self.carried = None  # the entry that is on its way to the gateway: it stays
        self.size = self.repeated = self.dropped = 0
        self._between = between
        self._lost = []  # never to come, and no record says so yet
        self._entrusted = []  # only the gateway has them
        self._missing_since_us = None
        self._top = 0  # the highest link sequence that an acknowledgement has named
        self._retry_us = RETRY_US
        self._retry_at_us = None

    def add(self, message, loss=None):
        """Take the message that was signed with `next_seq`; one that says what `loss_to_write` named forgets that."""
        if loss is not None:
            self._lost = without(self._lost, [loss])
        self.entries.append(Entry(self.next_seq, message, loss is not None))
        self.next_seq += 1
        self.size += len(message)
        while self.size > self.bytes_max and self._drop_oldest():
            pass

    def _drop_oldest(self):
        """Rule 3. Neither a record of loss, nor the newest message, nor what is on its way."""
        for entry in self.entries[:-1]:
            if not entry.is_loss and entry is not self.carried:
                self._forget(entry)
                self.dropped += 1
                seq = entry.link_seq
                if entry.times:
                    self._entrusted = with_range(self._entrusted, seq, seq)
                else:
                    self._lost = with_range(self._lost, seq, seq)
                return True
        return False

    def _forget(self, entry):
        self.entries.remove(entry)
        self.size -= len(entry.message)

    def loss_to_write(self):
        """Return (first, last) that a record of loss should name now, or None; one record waits at a time."""
        if not self._lost or [entry for entry in self.entries if entry.is_loss]:
            return None
        return self._lost[0]

    def due(self, now_us):
        """Return the entry that should go to the gateway now, or None."""
        for entry in self.entries:
            if not entry.times:
                return entry
        for entry in self.entries:  # section 8, sending, 5
            wait_us = min(RETRY_US_MAX, RETRY_US // 2 << min(entry.times - 1, 8))
            if entry.link_seq < self._top and now_us >= entry.taken_us + wait_us:
                return entry
        if not self.entries or self._retry_at_us is None or now_us < self._retry_at_us:
            return None
        fewest = min([entry.times for entry in self.entries])
        return [entry for entry in self.entries if entry.times == fewest][0]

    def taken(self, entry, now_us):
        """Note that the gateway has an entry."""
        if entry.times:
            self.repeated += 1
            if self._retry_at_us is not None and now_us >= self._retry_at_us:
                self._retry_us = min(RETRY_US_MAX, self._between(RETRY_US, 3 * self._retry_us))
                self._retry_at_us = now_us + self._retry_us
        entry.times += 1
        entry.taken_us = now_us
        if self._retry_at_us is None:
            self._retry_at_us = now_us + self._retry_us

    def receive_acknowledgement(self, upto, spans, now_us):
        """Free what the collector has; return the ranges that a RESUME should name (section 7)."""
        covered = [(1, upto)] + spans
        self._top = max(self._top, covered[-1][1])
        freed = [entry for entry in self.entries if not without([(entry.link_seq, entry.link_seq)], covered)]
        for entry in freed:
            self._forget(entry)
        if freed or not self.entries:
            self._retry_us = RETRY_US
            self._retry_at_us = now_us + RETRY_US if self.entries else None
        self._look_for_missing(covered, now_us)
        end = max(covered[-1][1], (self.entries[0].link_seq if self.entries else self.next_seq) - 1)
        gone = without([(1, end)], covered)
        for entry in self.entries:
            gone = without(gone, [(entry.link_seq, entry.link_seq)])
        return without(without(gone, self._entrusted), self._lost)[:RANGES_MAX]

    def _look_for_missing(self, covered, now_us):
        """Rule 3: what was left to the gateway arrives, or is lost."""
        self._entrusted = without(self._entrusted, covered)
        missing = without(self._entrusted, [(covered[-1][1] + 1, 1 << 62)])
        if not missing:
            self._missing_since_us = None
        elif self._missing_since_us is None:
            self._missing_since_us = now_us
        elif now_us - self._missing_since_us >= MISSING_US:
            self._missing_since_us = None
            self._entrusted = without(self._entrusted, missing)
            for first, last in missing:
                self._lost = with_range(self._lost, first, last)
