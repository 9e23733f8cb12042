"""Thinning: what takes the place of batches that a full outbox has no room for. Loaded for the first of them.

1. The oldest batch that no gateway has taken becomes windows of each of its series: count, sum, smallest, largest, first
   and last value (M4, docs/protocol/core.md, section 11, "Summaries"). What a gateway has taken is not thinned.
2. They lie in RAM until a gateway is there, and become a SUMMARY then, which names the numbers of its batches; one at a
   time, as it is not dropped. Until a gateway has that, `losses.py` notes the numbers: a power cut takes the windows,
   and the next life tells it.
3. There are at most as many windows as were asked for. Where there would be more, the run with the most of them gets
   wider ones: all at once, so that no reading of the present counts for more than one of the past.
4. A run is of one kind of clock; there are at most two, as a gateway's time is believed for an hour.
5. Sums are exact: of doubles, too, which are integers here, in units of 2^-1074, and rounded once.
6. A batch is taken whole or not at all, also where the heap ends in between; one that is not is lost, and told.

A window is a tuple: first and last time, count, sum, smallest, largest, first and last value. Times are the wall's where
the clock was synchronised, so that they stay when it is corrected.
"""

try:
    from covey_boards.shared import messages
    from covey_boards.shared.cbor import decode, encode

    from .outbox import with_range
except ImportError:
    import messages
    from cbor import decode, encode
    from outbox import with_range
try:
    from micropython import const
except ImportError:
    const = int

_MINUTE = const(60_000_000)
WIDTHS = (_MINUTE, 5 * _MINUTE, 15 * _MINUTE, 60 * _MINUTE, 360 * _MINUTE, 1_440 * _MINUTE)
_MESSAGE_BYTES_MAX = const(4_096)
_BODY_BYTES_MAX = const(2_400)
_WINDOW_BYTES = const(60)  # at most, of most
_RANGES_MAX = const(60)
_RUNS_MAX = const(2)
_SYNCHRONISED = const(0)
_FLOAT = const(2)
_SUM_MAX = const(1 << 62)
_LOW = const((1 << 60) - 1)


class Run:
    """Windows of one kind of clock."""

    def __init__(self, clock, width=0):
        self.clock = clock
        self.width = width  # a place in WIDTHS
        self.numbers = []  # ranges of batches
        self.seqs = []  # and of their link sequences
        self.anchor = None  # monotonic and wall time of the newest
        self.series = []  # (name, unit, kind, scale, windows), in order of kinds


class Thinner:
    """Collects what batches said.

    Args:
        windows_max: of all runs.
        in_one: says of which series' name all readings are one window.
        floats: whether doubles are taken.
        board: what `write` writes for.
    """

    def __init__(self, windows_max, in_one=None, floats=True, board=None):
        self.runs = []
        self.in_one = in_one
        self._board = board
        self._windows_max, self._floats = windows_max, floats

    def follow(self, keeps):
        """Follow other rules from now on."""
        self.in_one = in_one(keeps)

    def take(self, message, seq):
        """Take a signed batch that had a link sequence; return whether there was room for it.

        Raises:
            MemoryError: the heap is full; nothing was taken.
        """
        raw = message
        for place in (1, 9):  # of what is signed, and of the body in it
            raw = decode(raw, _MESSAGE_BYTES_MAX)[place]
        number, head = decode(raw, _MESSAGE_BYTES_MAX)
        clock, mono, wall = head[2:5]
        last = self.runs[-1] if self.runs else None
        run = Run(clock)
        if last is not None and last.clock == clock:
            run.width, run.numbers, run.seqs, run.series = last.width, last.numbers, last.seqs, last.series
        elif len(self.runs) >= _RUNS_MAX:
            return False
        else:
            last = None
        run.numbers = with_range(run.numbers, number, number)
        run.seqs = with_range(run.seqs, seq, seq)
        run.anchor = mono, wall
        names, columns = decode(head[5], _MESSAGE_BYTES_MAX), decode(head[7], _MESSAGE_BYTES_MAX)
        if len(run.numbers) > _RANGES_MAX or len(columns) > 3 and not self._floats:
            return False
        series = self._with_batch(run, names, columns, wall - mono if clock == _SYNCHRONISED else 0, mono)
        if series is None:
            return False
        run.series = series
        runs = self.runs[: -1 if last is not None else None] + [run]
        while not self._fits(runs):
            widest = None
            for each in runs:
                if each.width < len(WIDTHS) - 1 and (widest is None or _count(each) > _count(widest)):
                    widest = each
            if widest is None:
                return False
            runs[runs.index(widest)] = self._wider(widest)
        self.runs = runs
        return True

    def _wider(self, run):
        wider = Run(run.clock, run.width + 1)
        wider.numbers, wider.seqs, wider.anchor = run.numbers, run.seqs, run.anchor
        for each in run.series:
            wider.series.append(each[:4] + (self._folded(each[0], [], each[4], WIDTHS[wider.width]),))
        return wider

    def _fits(self, runs):
        if sum([_count(run) for run in runs]) > self._windows_max:
            return False
        for run in runs:
            size = 100 + 20 * len(run.numbers) + _WINDOW_BYTES * _count(run)
            for each in run.series:
                size += 10 + len(each[0].encode()) + len(each[1].encode())
            if size > _BODY_BYTES_MAX:
                return False
        return True

    def _with_batch(self, run, names, columns, wall_us, mono):
        """Return a run's series with those of a batch; None where one changes its kind or scale."""
        shape, times, numbers = columns[:3]
        floats = columns[3] if len(columns) > 3 else b""
        made, width = list(run.series), WIDTHS[run.width]
        at = times_at = numbers_at = floats_at = 0
        time, step = mono, 0
        began = None
        for place in range(0, len(names), 2):
            name, unit = names[place : place + 2]
            kind, scale, same = shape[at] // 20, shape[at] % 20 // 2, shape[at] & 1
            at += 1
            if same:
                count, times_at, time, step = began
            else:
                count, at = _varint(shape, at)
                began = count, times_at, time, step
            known = -1
            for index in range(len(made)):
                if made[index][:2] == (name, unit):
                    known = index
            if known >= 0 and made[known][2:4] != (kind, scale):
                return None
            windows, value = list(made[known][4]) if known >= 0 else [], 0
            for _ in range(count):
                more, times_at = _varint(times, times_at)
                step += more
                time += step
                if kind == _FLOAT:
                    value = _fixed(_plane(floats, floats_at, len(floats) // 8))
                    floats_at += 1
                else:
                    more, numbers_at = _varint(numbers, numbers_at)
                    value += more
                taken = time + wall_us
                windows = self._folded(name, windows, [(taken, taken, 1, value, value, value, value, value)], width)
            if kind != _FLOAT:
                for window in windows:
                    if not -_SUM_MAX < window[3] < _SUM_MAX:
                        return None
            found = name, unit, kind, scale, windows
            if known >= 0:
                made[known] = found
            elif kind == _FLOAT:
                made.append(found)
            else:
                made.insert(len([each for each in made if each[2] != _FLOAT]), found)
        return made

    def _folded(self, name, windows, more, width):
        """Return windows, with more of the same series, joined where they have one place."""
        alone = self.in_one is not None and self.in_one(name)
        for window in more:
            for place in range(len(windows) - 1, -1, -1):
                if alone or windows[place][0] // width == window[0] // width:
                    windows[place] = _joined(windows[place], window)
                    break
            else:
                windows.append(window)
        return windows

    def _may_write(self):
        """Say whether there is a run, and no SUMMARY waits for a gateway: none is there perhaps, though the link is up."""
        return bool(self.runs) and not [entry for entry in self._board.outbox.entries if entry.thinned and not entry.times]

    def write(self, now_us):
        """Write the first run as a SUMMARY."""
        board, runs = self._board, self.runs
        message = board._write(messages.SUMMARY, board._collector[0], self.body(board._boot_id), now_us)
        board.outbox.add(message, False).thinned = runs[0].seqs
        runs.pop(0)
        board._note_losses()

    def body(self, boot_id):
        """Return the body of the SUMMARY of the first run."""
        run = self.runs[0]
        mono, wall = run.anchor
        shift = mono - wall if run.clock == _SYNCHRONISED else 0
        columns = [[] for _ in range(9)]
        doubles = [[] for _ in range(5)]
        named = []
        for name, unit, kind, scale, windows in run.series:
            windows = sorted(windows)
            named.append([name, unit, kind, scale, len(windows)])
            for first, last, count, total, low, high, opening, closing in windows:
                columns[0].append(first + shift)
                columns[1].append(last - first)
                columns[2].append(count)
                if kind == _FLOAT:
                    for column, value in zip(doubles, (total, low, high, opening, closing)):
                        column.append(_double(value))
                else:
                    above = total - low * count
                    values = low, high - low, opening - low, closing - low, above & _LOW, above >> 60
                    for place in range(6):
                        columns[3 + place].append(values[place])
        raw = b"".join([b"".join(column) for column in doubles])
        planes = b"".join([_plane(raw, plane, 8) for plane in range(8)])
        packed = encode([named] + [_column(each) for each in columns] + [planes])
        head = [1, boot_id, run.clock, mono, wall, WIDTHS[run.width], _count(run), 0, len(packed), packed]
        return encode([[list(span) for span in run.numbers], head])


def of(board):
    """Return what thins a board's batches; what is kept through a sleep holds integers of 64 bits."""
    windows = max(8, min(32, board.outbox.bytes_max // 128))
    return Thinner(windows, in_one(board.keeps), board.sleeping is None, board)


def in_one(keeps):
    """Return what says of a name whether a summary tells one window of its series, as `keep newest` asks for.

    Args:
        keeps: (pattern, whether it is `keep newest`) of each rule, as `series_rules.read_rules` gives them.
    """
    if not keeps:
        return None
    try:
        from .alarms import matches
    except ImportError:
        from alarms import matches

    def is_in_one(name):
        for pattern, keep in keeps:
            if matches(pattern, name):
                return keep == 1
        return False

    return is_in_one


def _count(run):
    return sum([len(each[4]) for each in run.series])


def _joined(early, late):
    """Return the window of both's readings; `late` was taken in later."""
    first = late if late[0] < early[0] else early
    last = early if early[1] > late[1] else late
    total, low, high = early[3] + late[3], min(early[4], late[4]), max(early[5], late[5])
    return first[0], last[1], early[2] + late[2], total, low, high, first[6], last[7]


def _plane(raw, at, step):
    """Return each so many bytes from a place on: slices have no steps here."""
    return bytes([raw[place] for place in range(at, len(raw), step)])


def _varint(raw, at):
    """Return the integer at a place, and the place behind it."""
    number = shift = 0
    while True:
        number |= (raw[at] & 127) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 128:
            return number >> 1 ^ -(number & 1), at


def _column(values):
    """Return a column of integers."""
    first = values[0] if values else 0
    gaps = [values[place] - values[place - 1] if place else 0 for place in range(len(values))]
    width = 1
    while gaps and not -(1 << 8 * width - 1) <= min(gaps) <= max(gaps) < 1 << 8 * width - 1:
        width *= 2
    mask = (1 << 8 * width) - 1
    planes = b"".join([bytes([(gap & mask) >> 8 * plane & 255 for gap in gaps]) for plane in range(width)])
    return [first, width, planes]


def _fixed(octets):
    """Return a binary64, the lowest byte first, in units of 2^-1074."""
    bits = int.from_bytes(octets, "little")
    exponent, value = bits >> 52 & 2_047, bits & (1 << 52) - 1
    if exponent:
        value = value + (1 << 52) << exponent - 1
    return -value if bits >> 63 else value


def _double(value):
    """Return the binary64 nearest to such a number; the largest where none holds it."""
    bits, negative = abs(value), value < 0
    shift = len(bin(bits)) - 2 - 53
    if shift > 0:
        rest, bits = bits & (1 << shift) - 1, bits >> shift
        bits += rest > 1 << shift - 1 or rest == 1 << shift - 1 and bits & 1
        bits += shift << 52
    bits = min(bits, (2_047 << 52) - 1)
    return (bits | negative << 63).to_bytes(8, "little")
