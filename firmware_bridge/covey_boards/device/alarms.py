"""Which readings are alarms, and the batches of these that wait. Loaded if a rule of `covey.json` has one.

The rules are those of the agent's core/telemetry/series_rules.py:

1. The reading that crosses a limit is an alarm, and so is the one that ends it: the first beyond the limit by the
   hysteresis. Readings between the two are none. A change has no end.
2. A series raises at most `_PER_HOUR` alarms in any hour; each may have its end. What exceeds that is an ordinary
   reading, and is counted, and so is an alarm that finds no room: the next reading is then judged as if there had been
   none.
3. Alarms wait in batches of their own, one for all of a kind that follow each other, and become messages ahead of
   other batches, as long as those that no gateway has taken have less than half of the outbox. `outbox.py` lets them
   leave first, and drops none that no gateway has taken.
4. A restart forgets what is in alarm, so that it is raised again.
5. A board whose heap has too little room for all of this ignores the rules, and says so (`ports.py`, `core.py`, rule 8).

Of each series that a rule names a list is kept: the rule, whether it is in alarm, whether the present alarm was marked,
the last value of a change, and the seconds at which alarms were raised.
"""

import sys

try:
    from covey_boards.shared.batch import Batch
except ImportError:
    from batch import Batch
try:
    from micropython import const
except ImportError:
    const = int

_RAISED, _ENDED, _CHANGED = const(1), const(2), const(3)  # docs/protocol/core.md, section 11, "Alarms"
_ACTIVE, _MARKED, _LAST, _TIMES = const(1), const(2), const(3), const(4)
_PER_HOUR = const(12)
_HOUR_SECONDS = const(3_600)
_SERIES_MAX = const(32)
_BATCHES_MAX = const(4)
_BATCH_BYTES = const(512)
_BILLIONTHS = const(1_000_000_000)


def matches(pattern, name):
    """Say whether a pattern matches a name; `*` matches anything."""
    first, *others = pattern.split("*")
    if not others:
        return name == first
    at, last = len(first), others.pop()
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < at:
        return False
    for part in others:
        at = name.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True


class Alarms:
    """Judges readings, and collects alarms.

    Args:
        rules: as `series_rules.read_rules` gives them.
        outbox: of the board.
        counters: of the board; `alarms` and `alarms_suppressed` join them.
    """

    keep = 2  # of their messages, in `outbox.Entry`
    mark = b""  # of the rules' texts, for `opening.py`

    def __init__(self, rules, outbox, counters):
        self.rules = rules
        self.judged = {}  # by (name, unit)
        self.waiting = []  # [kind, batch], in order
        self._outbox, self._counters = outbox, counters
        for name in ("alarms", "alarms_suppressed"):
            counters.setdefault(name, 0)

    def take(self, *reading):
        """Take a reading, as a batch does, if it is an alarm; return whether it is.

        Raises:
            MemoryError: the heap is full; the reading was none then.
        """
        name, unit, scale, value, now_us = reading
        if not isinstance(value, int) and (scale is not None or not isinstance(value, float)) or value - value != 0:
            return False  # no batch takes it
        series = self.series(name, unit)
        kind = 0 if series is None else self._judge(series, scale, value, now_us // 1_000_000)
        if not kind:
            return False
        taken = False
        try:
            taken = self._add(kind, reading)
        except ValueError:
            pass  # too large, as the next batch will find, too
        finally:
            if not taken:
                if kind == _ENDED:
                    series[_ACTIVE] = True
                else:
                    series[_ACTIVE] = series[_MARKED] = False
                    series[_LAST] = None
                    series[_TIMES].pop()
        self._counters["alarms" if taken else "alarms_suppressed"] += 1
        return taken

    def series(self, name, unit):
        """Return what is known of a series; None where no rule names it, or too many are judged."""
        found = self.judged.get((name, unit))
        if found is None and len(self.judged) < _SERIES_MAX:
            for rule in self.rules:
                if matches(rule[0], name):
                    found = self.judged[(name, unit)] = [rule, False, False, None, []]
                    break
        return found

    def _judge(self, series, scale, value, now):
        """Return the kind of alarm that a reading is; 0: none."""
        _, condition, limit, hysteresis = series[0]
        value *= _BILLIONTHS if scale is None else 10 ** (9 - scale)
        if condition == "change":
            before, series[_LAST] = series[_LAST], value
            return _CHANGED if before is not None and abs(value - before) > limit and self._may(series, now) else 0
        beyond = value - limit if condition == ">" else limit - value
        if not series[_ACTIVE] and beyond > 0:
            series[_ACTIVE] = True
            series[_MARKED] = self._may(series, now)
            return _RAISED if series[_MARKED] else 0
        if series[_ACTIVE] and beyond <= -hysteresis:
            series[_ACTIVE] = False
            return _ENDED if series[_MARKED] else 0
        return 0

    def _may(self, series, now):
        times = series[_TIMES] = [each for each in series[_TIMES] if now - each < _HOUR_SECONDS]
        if len(times) >= _PER_HOUR:
            self._counters["alarms_suppressed"] += 1
            return False
        times.append(now)
        return True

    def _add(self, kind, reading):
        waiting = self.waiting
        if waiting and waiting[-1][0] == kind and waiting[-1][1].add(*reading):
            return True
        following = Batch(_BATCH_BYTES)
        if len(waiting) >= _BATCHES_MAX or not following.add(*reading):
            return False
        waiting.append([kind, following])
        return True

    def give_up(self, board):
        """Stop judging readings: the heap is too small. Alarms that still wait are lost."""
        board._sampling.alarms = None
        sys.modules.pop("alarms", None)
        try:
            board._storage.write("ignored", self.mark)  # the next start leaves them out, so that it is not full again
        except (OSError, MemoryError):
            pass  # then the next start finds it out
        self._counters["alarms_suppressed"] += sum([each[1].count for each in self.waiting])
        board.reporting.lasting = "series: no alarms any more, as the heap was full"

    def due(self, _now_us):
        """Say whether a batch should become a message now (rule 3)."""
        outbox = self._outbox
        untaken = [len(entry.message) for entry in outbox.entries if entry.keep == 2 and not entry.times]
        return bool(self.waiting) and 2 * sum(untaken) < outbox.bytes_max

    def body(self, *clock):
        """Return the body of the first batch; the arguments are those of `batch.Batch.body`."""
        kind, first = self.waiting[0]
        return b"\x83" + first.body(*clock)[1:] + bytes([0xA1, 1, kind])  # one more field: the extension map {1: kind}

    def closed(self, _now_us):
        """Forget the first batch, which is a message now."""
        self.waiting.pop(0)
