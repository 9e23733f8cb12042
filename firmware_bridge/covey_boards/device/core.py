"""A board's firmware without its hardware: bytes and `now` in, bytes out. docs/protocol/boards.md, section 18.

1. The identity is drawn here at the first start, stored before anybody is told of it, and never leaves.
2. Every start draws a new incarnation, so that no sequence is ever used twice, even after power cuts.
3. Nothing is sampled until a gateway's ENROL has named a collector. That collector is permanent.
4. Readings → batch → signed message → `outbox` → envelope for the collector → CARRY, one at a time, or as many as
   `window_bytes` holds. Envelopes are sealed with a fresh key each until `link_keys` has one, which saves the X25519.
5. A long computation begins one turn after BUSY has announced it to the gateway; one in each turn. While the line is
   up, the board alternates between closing batches and sending: a board that cannot keep up samples less, and drops
   nothing.
6. Time comes from the gateway, with its quality: without a TIME, or an hour after it, batches are UNSYNCHRONISED.
7. Received data can neither raise nor grow anything beyond the bounds of `link_machine` and `outbox`.
8. An unexpected error ends only the current step. It is counted, and the gateway gets the last one. After ten without
   anything accepted by the line in between, the board gives up and is restarted. After three it gives up alarms.
9. A requested restart waits until the gateway has all readings, as long as it accepts something.
10. What no gateway accepts is noted on flash, as briefly as possible (`losses.py`): the next incarnation reports it.
11. Operators that enrolment pinned may order (`orders.py`); a gateway delivers orders, and can neither write nor repeat
    them. If the heap has no room for one, all of this makes room for it, and restarts afterwards (`attending.py`).
12. So for firmware (`updating.py`), which stays if the collector's acknowledgement arrives while it runs
    (`slot_state.py`). For a known one (`standing.py`) nothing is loaded, because late loading fragments a small heap.
"""

import gc

try:
    from covey_boards.shared import batch, cbor, link_machine, messages
    from covey_boards.shared import tweetnacl as nacl

    from .outbox import Outbox
    from .reporting import Reporting
    from .sampling import Sampling
except ImportError:
    import batch
    import cbor
    import link_machine
    import messages
    import tweetnacl as nacl
    from outbox import Outbox
    from reporting import Reporting
    from sampling import Sampling
try:
    from micropython import const
except ImportError:
    const = int

_SYNCHRONISED_US = const(3_600_000_000)  # section 18
_BUSY_MS = const(4_000)  # verifying a signature on a Cortex-M0, twice over
_WAIT_US = const(1_000_000)  # before the line's full queue is tried again
_STUMBLES_MAX = const(10)
_ALARM_STUMBLES_MAX = const(3)  # before that, alarms are given up
_AHEAD = const(2)  # batches closed before the line has taken one, or one more than it has under way
_CARRY_BYTES = const(320)  # what a CARRY has beside the message, padding apart
_ORDER_BYTES = const(14_000)  # that are free, or an order has to wait for a heap of its own: half of it is loaded
_THIN_BYTES = const(9_000)  # that are free, or what has to go is lost: half of it is loaded
_TURN_US = const(10_000_000)  # a gateway that takes nothing for so long stops no batch


class Settings:
    """How often a board samples and sends, and how much memory it spends on it; how often it samples at all."""

    interval_us = 10_000_000
    batch_us = 60_000_000
    report_us = 300_000_000
    batch_bytes = 2_560
    outbox_bytes = 8_192
    window_bytes = 0  # of messages on the line: what is not the first goes only if it fits
    mtu = 256
    frame_bytes = link_machine.MTU_MAX  # on the line, at most
    samples = None
    link_keys = True

    def __init__(self, **given):
        for name in given:
            setattr(self, name, given[name])


def _late(name):
    """Return a neighbouring module that small heaps, or most boards, do not need before."""
    return __import__(__name__[:-4] + name, None, None, ("*",))


class Core:
    """The firmware.

    Args:
        identity: as `identity.load_identity` gives it.
        storage: `read(name)` gives bytes or None, `write(name, bytes)` is atomic.
        sensors: objects whose `read()` gives an iterable of (name, unit, scale, value), as `batch.Batch.add` takes them;
            one that has `prepare()` is asked to begin a second before.
        settings: a `Settings`.
    """

    def __init__(self, identity, storage, sensors, settings):
        self.restart_wanted = False  # or True, why the board gives up as a line for people, or (time, order) for `attending`
        self.identity = identity
        self.outbox = Outbox(settings.outbox_bytes, _between, self._thin)
        self.thinner = None  # of `thinning`, once a batch has to go
        self.keeps = []  # of `series_rules.read_rules`, for `thinning`
        self._whole = None  # of `whole`, if there are rules for any
        self.link = link_machine.Link(nacl.randombytes(8), mtu=settings.mtu, frame_bytes_max=settings.frame_bytes)
        self.counters = {"readings": 0, "sensor_errors": 0, "refused": 0, "acknowledgements": 0, "out_of_memory": 0}
        self.counters["errors"] = 0
        self._storage, self._settings = storage, settings
        self._collector = None  # [group id, signing key, noise key]
        try:
            raw = storage.read(messages.COLLECTOR_FILE) or b""
            self._collector = cbor.record(cbor.decode(raw, 128), (1, 1), 32, 32, 32)[1:]
        except cbor.WireError:
            pass  # not enrolled, or the file is damaged: ENROL says it anew
        self._incarnation, self._boot_id = nacl.randombytes(8), nacl.randombytes(8)
        self.reporting = Reporting(identity, self.link, self.counters)
        self._links = _late("link_keys").LinkKeys() if settings.link_keys else None
        self._batch = batch.Batch(self._settings.batch_bytes)
        self._closed = None  # the body of a batch that is not signed yet
        self._ahead = 0  # batches closed since, less messages that the line took: `_AHEAD` at most
        self._turn_us = 0  # when it is a batch's turn in any case
        self._sampling = Sampling(sensors, settings, self._failed)
        self._time = None  # (wall, now, synchronised) of the last TIME
        self._carries = []  # (number on the line, entry or None) of each CARRY under way
        self._carry_at_us = 0
        self._delivered = None  # (token, envelope or message, which) that waits
        self.trial = self.update = None  # of the firmware that runs, and one that comes
        self.known = []  # as `standing.known` gives it
        self.sleeping = None  # of a board that sleeps between its samples
        self.operators = None  # whom an ENROL that comes is to pin, as it came
        self._reply = None  # (kind, body) for the collector
        self._inbox = None
        self._announced = False
        self._event = None  # of the line, under way
        self._stumbles = 0  # errors, and times that the heap ended, since the line took something
        self._restarting = None  # what a restart that was asked for waits for
        self._order = None  # what `restart_wanted` is then, if not True
        self._losses = None  # of earlier lives, and of this one's outages
        if storage.read(messages.LOSSES_FILE):
            self._load_losses()

    # What the port calls

    def feed(self, raw, now_us):
        """Take bytes from the line. `now_us` counts microseconds since boot and never goes back."""
        self.link.receive_bytes(raw, now_us // 1000)

    def tick(self, now_us):
        """Do what is due, and return the bytes for the line. Call it after `feed`, and every few milliseconds.

        Raises:
            MemoryError: the heap is full; call `out_of_memory`, and continue.
        """
        try:
            self._turn(now_us)
        except MemoryError:
            raise
        except Exception as error:  # rule 8
            self.failed(error)
        return self.link.bytes_to_send(now_us // 1000)

    def _turn(self, now_us):
        now = now_us // 1000
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        if self.trial is not None:
            self.trial.turn(self, now_us)
        if self._event is None:
            self._event = self.link.next_event()
        while self._event is not None:
            self._handle(self._event, now_us)  # where the heap ends in it, it is handled again
            self._event = self.link.next_event()
        self._sample(now_us)
        if self._up:
            self.reporting.speak(self._collector, self.outbox, self._settings.report_us, now_us)
        self._work(now_us)
        if self.sleeping is not None:
            self.sleeping.turn(now_us)
        if self._restarting is not None and not self.restart_wanted and self._restarting.due(self, now_us):
            self.restart_wanted = self._order or True
            self._note_losses(True)

    def out_of_memory(self):
        """Count a MemoryError, and drop the oldest message, which is reported as lost. After some in a row, restart."""
        self.counters["out_of_memory"] += 1
        self._stumble("out of memory")
        try:
            self.outbox.drop_oldest()
        except MemoryError:
            pass  # the next time

    def restart(self, now_us):
        """Restart once the gateway has what was measured (rule 9)."""
        if self._restarting is None:
            self._restarting = _late("restarting").Restarting(now_us)

    def failed(self, reason):
        """Continue after an error (rule 8)."""
        self.counters["errors"] += 1
        event, self._event = self._event, None
        if isinstance(event, link_machine.Message):
            self.link.acknowledge(event.token)  # or it would come again, and fail again, for good
        self._stumble(messages.trouble("firmware", reason))

    def _stumble(self, trouble):
        self.reporting.trouble = trouble
        self._stumbles += 1
        if self._stumbles == _ALARM_STUMBLES_MAX and self._sampling.alarms is not None:
            self._sampling.alarms.give_up(self)
        if self._stumbles >= _STUMBLES_MAX and not self.restart_wanted:
            self.restart_wanted = trouble
            self._note_losses(True)

    # The line

    @property
    def _up(self):
        return self.link.state == link_machine.UP

    def _handle(self, event, now_us):
        if isinstance(event, link_machine.LinkUp):
            self.reporting.begin(event.restarted)
            if event.restarted:  # what still waits for this gateway comes before our name, and is dropped
                self._carries = []
                for entry in self.outbox.entries:
                    entry.carried = False
        elif isinstance(event, link_machine.Delivered):
            self._note_delivered(event.number, now_us)
        elif isinstance(event, link_machine.Message):
            self._receive(event, now_us)
        elif isinstance(event, link_machine.LinkDown):
            self._note_losses()  # of what was closed since the line fell silent

    def _note_delivered(self, number, now_us):
        self._stumbles = 0
        if self._restarting is not None:
            self._restarting.taken(now_us)
        self.reporting.taken(number)
        if self._carries and number == self._carries[0][0]:
            entry = self._carries.pop(0)[1]
            if entry is not None:
                self.outbox.taken(entry, now_us)
                self._ahead = max(0, self._ahead - 1)
                self._note_losses()

    def _receive(self, event, now_us):
        if event.data[1:2] in b"\x15\x16\x17":  # of `line_orders`
            self._delivered = event.token, event.data, True
            return
        if event.data[1:2] == b"\x14":
            self.operators = event.data
            self.link.acknowledge(event.token)
            return
        try:
            fields = messages.from_line(event.data)
        except cbor.WireError:
            fields = [None]
            self.counters["refused"] += 1
        kind = fields[0]
        if kind == messages.DELIVER:
            self._delivered = event.token, fields[1], False
            return
        if kind == messages.TIME:
            self._time = fields[1], now_us, fields[2]
        elif kind == messages.ENROL:
            if self._collector is None:  # rule 3: no gateway has us speak to somebody new, a file has to go first
                self._storage.write("operators.cbor", self.operators or b"")
                self._storage.write(messages.COLLECTOR_FILE, cbor.encode([1] + fields[1:]))
                self._collector = fields[1:]
            self.reporting.identify_due = True
        elif kind == messages.RESTART:
            self.restart(now_us)
        self.link.acknowledge(event.token)

    # Readings

    def _sample(self, now_us):
        """Read the sensors when it is time, and move readings into the batch as far as it takes them."""
        if self._collector is None:
            return
        if self._restarting is None:
            self._sampling.sample(now_us)
        self.counters["readings"] += self._sampling.fill(self._whole or self._batch)

    def _failed(self, name, reason):
        self.counters["sensor_errors"] += 1
        self.reporting.trouble = messages.trouble(name, reason)

    def _batch_is_due(self, now_us):
        if self._apart(now_us):
            return True
        if self._restarting is not None and (self._closed is not None or self._batch.count):
            return True
        if self._up and self._ahead >= self._ahead_max() and now_us < self._turn_us:
            return False
        if self._closed is not None:
            return True
        if not self._batch.count:
            return False
        return bool(self._sampling.readings) or now_us >= self._batch.opened_us + self._settings.batch_us

    def _apart(self, now_us):
        """Return what closes a batch of its own now: alarms, then what is kept whole."""
        apart = self._sampling.alarms
        if apart is None or not apart.due(now_us):
            apart = self._whole
            if apart is None or not apart.due(now_us):
                return None
        return apart

    def _ahead_max(self):
        return max(_AHEAD, len(self._carries) + 1)

    def _clock(self, now_us):
        """Return microseconds since 1970 as far as the board knows, and whether that can be believed (rule 6)."""
        if self._time is None:
            return now_us, False
        wall_us, at_us, right = self._time
        return wall_us + now_us - at_us, right and now_us - at_us <= _SYNCHRONISED_US

    def _close_batch(self, now_us):
        """Close a batch of others, or else the batch, and free its columns before its body is signed."""
        wall_us, right = self._clock(now_us)
        clock = self._boot_id, batch.SYNCHRONISED if right else batch.UNSYNCHRONISED, now_us, wall_us
        apart = self._apart(now_us) if self._closed is None else None  # what is closed has its number already
        if apart is not None:
            body = apart.body(self.outbox.next_number, *clock)
            self.outbox.add(self._write(messages.TELEMETRY, self._collector[0], body, now_us), keep=apart.keep)
            apart.closed(now_us)
            return self._note_losses()
        if self._closed is None:
            following = batch.Batch(self._settings.batch_bytes)  # or the heap might end between the two, and each goes twice
            self._closed = self._batch.body(self.outbox.next_number, *clock)
            self._batch = following
        self.outbox.add(self._write(messages.TELEMETRY, self._collector[0], self._closed, now_us))
        self._closed = None
        self._ahead, self._turn_us = min(self._ahead + 1, self._ahead_max()), now_us + _TURN_US
        self._note_losses()

    def _load_losses(self):
        self._losses = _late("losses").Outages(self._storage, self._incarnation)

    def _note_losses(self, restarted=False):
        """Rule 10; `restarted` says that this life is over."""
        untaken = self.outbox.untaken()
        try:
            if self._losses is None and untaken and (restarted or not self._up or self._ahead >= self._ahead_max()):
                self._load_losses()
            if self._losses is not None:
                self._losses.note(untaken, self._up, restarted, self._ahead_max())
        except (OSError, MemoryError) as error:  # then the next life knows less
            self.reporting.trouble = messages.trouble(messages.LOSSES_FILE, error)

    # Messages

    def _write(self, kind, group_id, body, now_us, sequenced=True):
        seq = self.outbox.next_seq if sequenced else 0
        offset = self._losses.offset if self._losses is not None and sequenced else 0
        numbers = seq + offset, seq, self._clock(now_us)[0]
        return messages.write_message(
            self.identity, kind, self._collector[1], group_id, self._incarnation, *numbers, body
        )

    def _work(self, now_us):
        """Rule 5."""
        job = self._next_job(now_us)
        if job is None:
            self._announced = False
        elif self._up and not self._announced:
            self.link.busy(_BUSY_MS)
            self._announced = True
        else:
            self._announced = False
            try:
                job(now_us)
                if not self._up:
                    self._stumbles = 0
            except MemoryError:
                self._carry_at_us = now_us + _WAIT_US
                self.out_of_memory()

    def _next_job(self, now_us):
        if self._delivered is not None:
            return self._open
        if self._collector is None or self.sleeping is not None and not self.sleeping.may_work(now_us):
            return None
        if self._batch_is_due(now_us):
            return self._close_batch
        if not self._up or self.reporting.identify_due or now_us < self._carry_at_us:
            return None
        entry = self.outbox.due(now_us)
        if self._carries:  # what is under way leaves room for more, or nothing goes (rule 4)
            room = self._settings.window_bytes - _CARRY_BYTES - self.link.queued_bytes()
            if room < (len(entry.message) if entry is not None else 0):
                return None
        if self._reply:
            return self._send_reply
        if self.outbox.loss_to_write():
            return self._write_loss
        if self.thinner is not None and self.thinner._may_write():
            return self.thinner.write
        if self._losses is not None and self._losses.due():
            return self._write_earlier
        if self._links is not None and self._links.wanted and self.counters["acknowledgements"]:
            return self._links.writing(self)
        return self._send_due if entry else None

    def _write_loss(self, now_us):
        loss = self.outbox.loss_to_write()
        body = messages.write_loss(messages.OUTBOX_FULL, loss, self.outbox.numbers_of(loss))
        self.outbox.add(self._write(messages.LOSS, messages.NO_GROUP, body, now_us), False, loss)

    def _write_earlier(self, now_us):
        message = self._write(messages.LOSS, messages.NO_GROUP, self._losses.body(), now_us)
        self._losses.entry = self.outbox.add(message, False)

    def _thin(self, message, seq):
        """Take a batch that has to go for a summary, if the heap has room; return whether it is taken."""
        if self.thinner is None:
            gc.collect()
            if hasattr(gc, "mem_free") and gc.mem_free() < _THIN_BYTES:
                return False
            self.thinner = _late("thinning").of(self)
        return self.thinner.take(message, seq)

    def _send_reply(self, now_us):
        kind, body = self._reply
        self._reply = None
        message = self._write(kind, messages.NO_GROUP, body, now_us, sequenced=False)
        self._send(message, None, self._links is not None and kind == messages.ACK, now_us)

    def _send_due(self, now_us):
        entry = self.outbox.due(now_us)
        links = self._links
        if entry.sent and links is not None:
            links.end()
        self._send(entry.message, entry, links is not None and not entry.sent and entry is not links.entry, now_us)

    def _send(self, message, entry, by_link, now_us):
        _, signing_public, noise_public = self._collector
        envelope = self._links.seal(message, now_us) if by_link else None
        if envelope is None:
            envelope = messages.seal(message, noise_public, nacl.randombytes(32), nacl.randombytes(24))
        carry = [None, entry]
        carries = self._carries + [carry]  # room for that first: what goes has to be known to go
        is_urgent = entry is not None and entry.keep == 2 and not entry.times  # what goes again waits for its turn
        carry[0] = self.reporting.say(8 if is_urgent else messages.CARRY, signing_public, envelope)  # ALARM of `line_orders`
        if carry[0] is None:
            self._carry_at_us = now_us + _WAIT_US
        else:
            if entry is not None:
                entry.sent = entry.carried = True
            self._carries = carries

    def _open(self, now_us):
        """Deal with an envelope, where only what the collector itself has written has an effect, or with an order."""
        token, content, is_order = self._delivered
        self._delivered = None
        try:
            if is_order:  # rules 11 and 12
                if content[1:2] == b"\x16" and self._say_how_it_stands(content):
                    return
                gc.collect()
                if self.update is None and hasattr(gc, "mem_free") and gc.mem_free() < _ORDER_BYTES:
                    return self._make_room(content, now_us)
                clock = self._clock(now_us)
                return _late("downward").take(self, self._storage, self._settings, clock, content, now_us)
            self._hear(messages.read_message(messages.open_sealed(content, self.identity.noise_secret)), now_us)
        except cbor.WireError:
            self.counters["refused"] += 1
        finally:
            self.link.acknowledge(token)

    def _make_room(self, content, now_us):
        """Give the heap to an order, or to a firmware that is not known yet; what is on trial keeps its starts."""
        kind = content[1:2]
        if kind == b"\x17" or self.trial is not None:
            return
        if kind == b"\x16":  # more than an order does: what was let go of has to be gone for certain
            self._storage.write("room.cbor", kind)
        else:
            self._order = self._order or (self._time, content)
        self.restart(now_us)

    def _say_how_it_stands(self, content):
        """Say it of a firmware that is announced, if that is known; return whether it is."""
        digest = messages.announced_digest(content)
        if digest not in self.known:
            return False
        state = self.known.index(digest) + 1
        self.reporting.say(6, digest, state, 0, self.known[4] if state == 4 else "")  # PROGRESS of `line_orders`
        return True

    def _hear(self, message, now_us):
        kind, author, recipient, body = message[0], message[1], message[2], message[8]
        if self._collector is None or author != self._collector[1]:
            raise cbor.WireError("not_a_member")
        if recipient != self.identity.signing_public:
            raise cbor.WireError("not_for_us")
        if kind != messages.ACK:
            if self._inbox is None:  # most boards never need it
                self._inbox = _late("inbox").Inbox(self, self._storage, self._settings, self.counters)
            self._reply = self._inbox.take(kind, message[4], message[6], body, now_us)
            return
        incarnation, upto, spans = messages.read_acknowledgement(body)
        if incarnation != self._incarnation:
            return
        self.counters["acknowledgements"] += 1
        gone = self.outbox.receive_acknowledgement(upto, spans, now_us)
        if self._links is not None:
            self._links.heard(self.outbox.entries)
        if self._losses is not None:
            self._losses.heard(self.outbox.entries)
        if gone:
            self._reply = messages.RESUME, cbor.encode(gone)


def _between(low, high):
    return low + int.from_bytes(nacl.randombytes(6), "little") % (high - low + 1)
