"""The whole firmware against a gateway and a collector made of the same shared modules, in a seeded world without a
clock: what a board writes is the same on CPython and on every runtime, byte for byte.

`simulate` raises AssertionError where a promise of `firmware_bridge/covey_boards/device/core.py` is broken.
"""

try:
    from covey_boards.device import core, identity, series_rules, slot_state, slots
    from covey_boards.shared import cbor, line_orders, link_machine, messages
    from covey_boards.shared import tweetnacl as nacl
    from hil.on_board.link_simulation import Random, damage
except ImportError:
    import cbor
    import core
    import identity
    import line_orders
    import link_machine
    import messages
    import series_rules
    import slot_state
    import slots
    import tweetnacl as nacl
    from link_simulation import Random, damage

GROUP = bytes(range(32))
WALL_US = 1_780_000_000_000_000
STEP_US = 5_000
SEALED, LINKED = 1, 2  # versions of envelopes


class Files:
    """Flash: what survives a restart."""

    def __init__(self):
        self.held = {}
        self.writes = 0
        self.folder = ""

    def read(self, name):
        """Return a file, or None."""
        return self.held.get(name)

    def write(self, name, data):
        """Keep a file."""
        self.writes += 1
        self.held[name] = bytes(data)


class Sensor:
    """Counts on through restarts, so that each reading is known by its value."""

    def __init__(self):
        self.kept = 0  # through a deep sleep

    def read(self):
        """Return two series."""
        self.kept += 1
        return [("sim:counter", "", 0, self.kept), ("sim:half", "Cel", 1, 5 * self.kept)]

    @property
    def count(self):
        """How often it was read."""
        return self.kept


class Collector:
    """Takes each message once, and acknowledges what is contiguous and what is not; sees to the rules of link keys."""

    def __init__(self):
        self.identity = identity.Identity(b"\x07" * 32, b"\x08" * 32)
        self.keys = {}  # tag: link key
        self.versions = []  # of the envelopes that came, in order
        self.unreadable = 0
        self.acknowledgements = []  # bodies, of what went down to the board
        self._envelopes = {}  # by nonce, and by the message that went in a link envelope
        self.links = {}  # incarnation: {link_seq: (type, body)}
        self.resumed = []
        self.lost = []  # [first, last] of telemetry numbers
        self.lost_earlier = []  # (incarnation, such ranges)
        self.readings = 0
        self.board = None

    def receive(self, envelope):
        """Open, verify and take a board's envelope; return the sealed acknowledgement, or None where none is due."""
        message = self.open(envelope)
        if message is None:
            self.unreadable += 1
            return None
        kind, author, recipient, group, incarnation, seq, link_seq, _, body = messages.read_message(message)
        assert author == self.board.signing_public, "somebody else's"
        assert recipient == self.identity.signing_public, "not for us"
        assert group == (GROUP if kind in (messages.TELEMETRY, messages.SUMMARY) else messages.NO_GROUP), "group"
        if self.versions[-1] == LINKED:
            assert kind not in (messages.LINK, messages.RESUME), "by link"
            if link_seq:
                self.once((incarnation, link_seq), envelope)
        if kind == messages.ACK:
            self.acknowledgements.append(body)
            return None
        self.take(kind, incarnation, seq, link_seq, body)
        return self.acknowledgement(incarnation)

    def take(self, kind, incarnation, seq, link_seq, body):
        """Remember what a message says."""
        taken = self.links.setdefault(incarnation, {})
        if kind == messages.RESUME:
            for first, last in cbor.decode(body, 2048):
                self.resumed.append((first, last))
                for number in range(first, last + 1):
                    taken.setdefault(number, None)
        elif taken.get(link_seq):
            assert taken[link_seq] == (kind, body), "a sequence twice"
        else:
            taken[link_seq] = kind, body
            if kind == messages.TELEMETRY:
                self.readings += readings_of(body)
            if kind == messages.LOSS:
                reason, places, numbers, *earlier = cbor.decode(body, 2560)
                assert reason == (messages.DAMAGED if earlier else messages.OUTBOX_FULL), "reason"
                if earlier:
                    assert earlier[0] != incarnation, "of an earlier life"
                    assert places[-1][1] < seq, "more than was ever sent"
                    self.lost_earlier.append((earlier[0], numbers))
                    return
                self.lost += numbers
                for first, last in places:
                    assert 0 < first <= last < link_seq, "loss"
                    for number in range(first, last + 1):
                        taken.setdefault(number, None)
            if kind == messages.LINK:
                tag, key = cbor.record(cbor.decode(body, 64), 8, 32)
                self.keys[tag] = key

    def open(self, envelope):
        """Return the message in an envelope of either kind; None for a link key that is not there."""
        fields = cbor.decode(envelope, 4096)
        self.versions.append(fields[0])
        if fields[0] != LINKED:
            return messages.open_sealed(envelope, self.identity.noise_secret)
        _, tag, counter, box = cbor.record(fields, (LINKED, LINKED), 8, (1, 1 << 62), bytes)
        nonce = tag + counter.to_bytes(16, "big")
        self.once(nonce, envelope)
        if tag not in self.keys:
            return None
        return nacl.crypto_secretbox_open(box, nonce, self.keys[tag]).rstrip(b"\0")[:-1]

    def once(self, what, envelope):
        """Check that a nonce is used, and a message sent by link, only once; a line may bring an envelope twice."""
        digest = nacl.crypto_hash(envelope)[:8]
        assert self._envelopes.setdefault(what, digest) == digest, "twice by link"

    def acknowledgement(self, incarnation):
        """Return what is known of a link, sealed for the board."""
        numbers = sorted(self.links[incarnation])
        upto = 0
        while numbers and numbers[0] == upto + 1:
            upto = numbers.pop(0)
        spans = []
        for number in numbers:
            if spans and number == spans[-1][1] + 1:
                spans[-1][1] = number
            else:
                spans.append([number, number])
        body = cbor.encode([incarnation, [upto, spans]])
        to, none = self.board.signing_public, messages.NO_GROUP
        message = messages.write_message(self.identity, messages.ACK, to, none, b"c" * 8, 0, 0, 0, body)
        return messages.seal(message, self.board.noise_public, b"\x09" * 32, b"\x0a" * 24)

    def summarised(self, incarnation):
        """Return the numbers of a lifetime's batches that summaries took the place of; each is in one."""
        numbers = []
        for each in self.links.get(incarnation, {}).values():
            if each and each[0] == messages.SUMMARY:
                for first, last in cbor.decode(each[1], 4096)[0]:
                    numbers += range(first, last + 1)
        assert len(numbers) == len(set(numbers)), "in two summaries"
        return numbers

    def alarms(self):
        """Return what each batch of alarms announces, and its first series' values."""
        bodies = [
            each[1]
            for taken in self.links.values()
            for each in taken.values()
            if each and each[0] == messages.TELEMETRY
        ]
        return [(body[-1], counters_of(body)) for body in bodies if body[0] == 0x83]

    def values(self):
        """Return every value of the counter that telemetry brought, in order of link and batch."""
        return [value for values in self.runs() for value in values]

    def runs(self):
        """Return the same, for each start of the board by itself: what was under way may come after the next one."""
        found = []
        for taken in self.links.values():
            values = []
            for number in sorted(taken):
                if taken[number] and taken[number][0] == messages.TELEMETRY:
                    values += counters_of(taken[number][1])
            found.append(values)
        return found


def counters_of(body):
    """Return the values of the first series of a batch (docs/protocol/core.md, section 11)."""
    columns = cbor.decode(cbor.decode(body, 4096)[1][7], 4096)
    count = varints_of(columns[0][1:])[0]
    values = varints_of(columns[2])[:count]
    for i in range(1, count):
        values[i] += values[i - 1]
    return values


def readings_of(body):
    """Return how many numbers a batch has."""
    _, _, numbers, *floats = cbor.decode(cbor.decode(body, 4096)[1][7], 4096)
    return len(varints_of(numbers)) + len(b"".join(floats)) // 8


def varints_of(raw):
    """Return the integers of bytes that begin with varints."""
    integers, number, shift = [], 0, 0
    for octet in raw:
        number |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            integers.append(number >> 1 ^ -(number & 1))
            number = shift = 0
    return integers


class Gateway:
    """Carries; believes whoever identifies itself, as the real one does."""

    def __init__(self, rng, collector):
        self.collector = collector
        self.link = link_machine.Link(rng.bytes(8), mtu=256, window=8)
        self.reports = 0
        self.troubles = []
        self.identified = False
        self.refuses = self.deaf = False
        self.waiting = []  # envelopes, while the relay is away
        self.kept = []  # for the board, while it sleeps
        self.asleep = False
        self.wakings = 0  # that the board has spoken of
        self.urgent = 0  # envelopes that it has called alarms
        self.away = False

    def turn(self, now_us):
        """Deal with what came."""
        deadline = self.link.next_deadline()
        if deadline is not None and now_us // 1000 >= deadline:
            self.link.handle_deadline(now_us // 1000)
        event = self.link.next_event()
        while event is not None:
            if isinstance(event, link_machine.Message):
                self.receive(line_orders.from_line(event.data), now_us)
                self.link.acknowledge(event.token)
            event = self.link.next_event()
        while self.waiting and not self.away:
            answer = self.collector.receive(self.waiting.pop(0))
            if answer is not None:
                self.kept.append(messages.to_line(messages.DELIVER, answer))
        while self.kept and not self.asleep:
            self.link.send(self.kept.pop(0))

    def receive(self, message, now_us):
        """Take one message of the board."""
        self.asleep = message[0] == line_orders.SLEEP and message[1] > 0
        if message[0] == line_orders.SLEEP:
            if not self.asleep:
                self.wakings += 1
                self.link.send(messages.to_line(messages.TIME, WALL_US + now_us, True))
        elif message[0] == messages.IDENTIFY:
            _, signing_public, noise_public, proof, collector, _ = message
            assert identity.noise_key_is_proven(signing_public, noise_public, proof), "proof"
            self.identified = True
            self.collector.board = self.collector.board or Keys(signing_public, noise_public)
            assert self.collector.board.signing_public == signing_public, "another identity"
            self.link.send(messages.to_line(messages.TIME, WALL_US + now_us, True))
            if collector == bytes(32):
                keys = self.collector.identity
                self.link.send(messages.to_line(messages.ENROL, GROUP, keys.signing_public, keys.noise_public))
        elif message[0] == messages.REPORT:
            self.reports += 1
        elif message[0] == messages.TROUBLE:
            self.troubles.append(message[1])
        elif self.identified and not self.deaf:
            assert message[1] == self.collector.identity.signing_public, "recipient"
            self.urgent += message[0] == line_orders.ALARM
            self.waiting.append(message[2])


class Keys:
    """A board's public half."""

    def __init__(self, signing_public, noise_public):
        self.signing_public, self.noise_public = signing_public, noise_public


class World:
    """One board, one gateway, one line."""

    def __init__(self, seed, permille=0, **settings):
        self.rng = Random(seed)
        self.permille = permille
        self.rules = settings.pop("rules", [])  # for series, as `covey.json` has them
        self.settings = settings
        self.files, self.sensor, self.collector = Files(), Sensor(), Collector()
        self.now_us = self.booted_us = 0
        self.absent = False  # the gateway: what the board says then, nobody hears
        self.hash = bytes(32)
        nacl.set_randombytes(self.rng.bytes)
        self.boot()
        self.gateway = Gateway(self.rng, self.collector)

    def boot(self):
        """Start the board anew, with its flash."""
        self.booted_us = self.now_us
        self.board = core.Core(
            identity.load_identity(self.files), self.files, [self.sensor], core.Settings(**self.settings)
        )
        series_rules.follow(self.board, self.rules)

    def run(self, seconds, until=None, step_us=STEP_US):
        """Let time pass, in steps that may be long while nobody is on the line."""
        end_us = self.now_us + int(1_000_000 * seconds)
        while self.now_us < end_us and not (until and until()):
            self.turn()
            self.now_us += step_us

    def turn(self):
        """One step of both ends."""
        raw = self.board.tick(self.now_us - self.booted_us)
        if raw:
            self.hash = nacl.crypto_hash(self.hash + raw)[:32]
        if self.absent:
            return
        if raw:
            self.gateway.link.receive_bytes(damage(self.rng, raw, self.permille), self.now_us // 1000)
        self.gateway.turn(self.now_us)
        raw = self.gateway.link.bytes_to_send(self.now_us // 1000)
        if raw:
            self.board.feed(damage(self.rng, raw, self.permille), self.now_us - self.booted_us)

    def _open(self):
        whole = self.board._whole  # noqa: SLF001
        return self.board._batch.count or (whole is not None and whole.batch.count)  # noqa: SLF001

    def settle(self, seconds=600):
        """Sample no more, and deliver."""
        self.board._settings.samples = self.board._sampling._samples  # noqa: SLF001
        self.run(seconds, lambda: not self.board.outbox.entries and not self._open())
        assert not self.board.outbox.entries, "not delivered"
        assert not self.board.counters["errors"], "an error"


def simulate(seed, permille, seconds=40, restarts=0):
    """Live through a damaged line and restarts; every reading that a restart did not take arrives once."""
    world = World(seed, permille, interval_us=500_000, batch_us=2_000_000, window_bytes=(0, 1_500, 4_000)[seed % 3])
    for _ in range(restarts):
        world.run(seconds // (restarts + 1) + world.rng.below(3000) / 1000)
        world.boot()
    world.run(seconds // (restarts + 1))
    world.settle()
    values = world.collector.values()
    assert len(set(values)) == len(values), "a reading twice"
    if not restarts:
        assert values == list(range(1, world.sensor.count + 1)), "a reading lost"
    assert len(world.collector.links) <= restarts + 1, "incarnations"
    return world


def outage(seconds=600):
    """Live without a gateway until the power goes: a write as it begins, and the next life admits what was lost."""
    world = World(46, interval_us=5_000_000, batch_us=30_000_000)
    world.run(45)
    (incarnation,) = world.collector.links
    writes, number = world.files.writes, world.board.outbox.next_number
    world.absent = True
    world.run(60, lambda: world.board.outbox.next_number > number and not world.board._up)  # noqa: SLF001
    assert world.files.writes == writes + 1, "one write as it begins"
    world.run(seconds, step_us=250_000)
    writes, closed = world.files.writes - writes, world.board.outbox.next_number - 1
    world.boot()
    world.absent = False
    world.run(60, lambda: world.collector.lost_earlier and not world.files.held[messages.LOSSES_FILE])
    came = [
        cbor.decode(each[1], 4096)[0]
        for each in world.collector.links[incarnation].values()
        if each[0] == messages.TELEMETRY
    ]
    ((earlier, numbers),) = world.collector.lost_earlier
    assert earlier == incarnation, "of whom"
    lost = [number for first, last in numbers for number in range(first, last + 1)]
    assert sorted(came + lost) == list(range(1, len(came + lost) + 1)), "each came or is admitted"
    assert 3 * len(lost) >= 2 * (closed - len(came)), "two thirds of it at least"
    print("outage", closed, "came", len(came), "admitted", len(lost), "writes", writes)


def alarmed():
    """Raise alarms in an absence of the gateway: they come whole, and first."""
    rules = ["*half alarm > 20", "*half alarm change > 9", "*counter keep whole"]
    world = World(48, interval_us=5_000_000, batch_us=30_000_000, outbox_bytes=2_000, rules=rules)
    world.run(45)
    world.absent = True
    world.run(300, step_us=250_000)
    world.sensor.kept += 100
    world.run(300, step_us=250_000)
    world.absent = False
    world.run(60)
    kinds = [kind for kind, _ in world.collector.alarms()]
    assert kinds == [1] * world.board.counters["alarms"], "whole"
    assert world.gateway.urgent == len(kinds), "and marked"
    print("alarmed", len(kinds), world.board.outbox.thinned, "".join(["%02x" % byte for byte in world.hash[:8]]))  # noqa: UP031


def trial(seconds=600):
    """A firmware on trial that nobody acknowledges is gone from when its time is over, and not before."""
    world = World(47, interval_us=5_000_000, batch_us=60_000_000)
    slot_state.write(world.files, ["", "slot_a", 1, b"", b"new", b""])
    world.board.trial = slot_state.Trial(world.files, 1_000_000 * seconds)
    world.gateway.deaf = True
    world.run(20)
    assert world.gateway.identified
    world.absent = True
    world.run(seconds, lambda: world.board.restart_wanted, step_us=250_000)
    assert world.now_us == 1_000_000 * seconds + 250_000, "when its time is over"
    assert slots.choose(world.files) == "", "the one of before starts"
    assert slot_state.read(world.files)[5] == b"new", "and this one not again"
    print("trial", world.board.restart_wanted)


def run(seeds, seconds):
    """Simulate a range of seeds, and print a digest of all that the boards wrote."""
    digest = bytes(32)
    for seed in range(1, seeds + 1):
        world = simulate(seed, (0, 10, 100)[seed % 3], seconds, restarts=seed % 2)
        digest = nacl.crypto_hash(digest + world.hash)[:32]
    print("simulated", seeds, "".join(["%02x" % byte for byte in digest[:8]]))  # noqa: UP031
