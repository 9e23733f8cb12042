"""Two ends of the serial link over a line that damages bytes: the same seeded world on CPython and on every board.

`simulate` raises AssertionError where a promise of `link_machine` is broken.
"""

try:
    from covey_boards.shared import link_machine
except ImportError:
    import link_machine

NEVER = 1 << 29  # milliseconds; a small integer on every board


class Random:
    """A generator that gives the same numbers everywhere (Numerical Recipes' LCG, high bits)."""

    def __init__(self, seed):
        self.state = seed & 0xFFFF

    def below(self, n):
        """Return 0 to n - 1."""
        self.state = (self.state * 25173 + 13849) & 0xFFFF
        return (self.state >> 3) * n >> 13

    def bytes(self, n):
        """Return n bytes."""
        return bytes([self.below(256) for _ in range(n)])


class End:
    """One end with its owner: what it still wants delivered, what it has received, what it acknowledges late."""

    def __init__(self, rng, mtu, messages, window=1):
        self.rng, self.mtu, self.window = rng, mtu, window
        self.outbox = list(messages)
        self.received = []
        self.downs = 0
        self.boot()

    def boot(self):
        """Start anew with what is stored: the outbox."""
        self.link = link_machine.Link(self.rng.bytes(8), mtu=self.mtu, window=self.window)
        self.numbers = {}
        self.late = []
        self.refill()

    def refill(self):
        """Queue stored messages, as many as the link takes."""
        waiting = list(self.numbers.values())
        for message in self.outbox:
            if message not in waiting:
                number = self.link.send(message)
                if number is None:
                    break
                self.numbers[number] = message

    def turn(self, now):
        """Handle events and deadlines."""
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        event = self.link.next_event()
        while event is not None:
            self.handle(event, now)
            event = self.link.next_event()
        while self.late and now >= self.late[0][0]:
            self.link.acknowledge(self.late.pop(0)[1])

    def handle(self, event, now):
        """Store a message, acknowledge it a little later, and drop from the outbox what was delivered."""
        if isinstance(event, link_machine.Message):
            self.received.append(event.data)
            self.late.append((now + self.rng.below(30), event.token))
        elif isinstance(event, link_machine.Delivered):
            self.outbox.remove(self.numbers.pop(event.number))
            self.refill()
        elif isinstance(event, link_machine.LinkDown):
            self.downs += 1

    def next_time(self):
        """Return when this end has something to do."""
        deadline = self.link.next_deadline()
        times = [due for due, _ in self.late[:1]]
        return min(times + [NEVER if deadline is None else deadline])  # noqa: RUF005 - not on MicroPython


def damage(rng, raw, permille):
    """Return what the line makes of a burst: nothing, a part, a flipped bit, it twice, noise in front, or itself."""
    if rng.below(1000) >= permille or not raw:
        return raw
    kind = rng.below(5)
    at = rng.below(len(raw))
    if kind == 0:
        return b""
    if kind == 1:
        return raw[:at]
    if kind == 2:
        return raw[:at] + bytes([raw[at] ^ (1 << rng.below(8))]) + raw[at + 1 :]
    if kind == 3:
        return raw + raw
    return rng.bytes(rng.below(60)) + raw


def unique(messages):
    """Return messages without repetitions, in the order of their first arrival."""
    seen = []
    for message in messages:
        if message not in seen:
            seen.append(message)
    return seen


def _messages(rng, name, count):
    return [name + b"%d:" % i + rng.bytes(rng.below(120)) for i in range(count)]


def simulate(seed, count=8, permille=100, resets=0, mtu=64, limit_ms=600_000, windows=(1, 1)):
    """Send `count` messages each way over a line that damages bursts; `resets` times one end restarts.

    Every message arrives, in order; exactly once if nobody restarts. Returns the two ends and the time.
    """
    rng = Random(seed)
    sent = [_messages(rng, b"a", count), _messages(rng, b"b", count)]
    ends = [End(rng, mtu, sent[0], windows[0]), End(rng, mtu + 16, sent[1], windows[1])]
    flying = []  # arrival, destination, bytes
    arrived = [0, 0]  # when the last that is under way to each end comes: a line overtakes nothing
    now = 0
    reset_times = [rng.below(1000 * (i + 1)) for i in range(resets)]
    while ends[0].outbox or ends[1].outbox:
        assert now < limit_ms, "no end"
        for entry in [entry for entry in flying if entry[0] <= now]:
            flying.remove(entry)
            ends[entry[1]].link.receive_bytes(entry[2], now)
        if reset_times and now >= reset_times[0]:
            reset_times.pop(0)
            ends[rng.below(2)].boot()
        for i in range(2):
            ends[i].turn(now)
            raw = ends[i].link.bytes_to_send(now)
            while raw:
                arrived[1 - i] = max(arrived[1 - i], now + 3 + rng.below(10))
                flying.append((arrived[1 - i], 1 - i, damage(rng, raw, permille)))
                raw = ends[i].link.bytes_to_send(now)
        now = max(now + 1, min([ends[0].next_time(), ends[1].next_time()] + [entry[0] for entry in flying]))
    for i in range(2):
        received = ends[1 - i].received
        assert unique(received) == sent[i], "lost, invented or out of order"
        assert resets or len(received) == count, "twice"
    return ends[0], ends[1], now


def run(seeds, resets):
    """Simulate a range of seeds; print what would otherwise only be seen on failure."""
    repetitions = downs = 0
    for seed in range(seeds):
        faults = (0, 10, 100, 300)[seed & 3]
        windows = (1, 1 + seed % 8)
        a, b, _ = simulate(seed, permille=faults, resets=resets if seed & 1 else 0, windows=windows)
        repetitions += a.link.statistics.repetitions + b.link.statistics.repetitions
        downs += a.downs + b.downs
    print("simulated", seeds, "repetitions", repetitions, "downs", downs)
