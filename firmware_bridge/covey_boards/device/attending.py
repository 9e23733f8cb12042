"""Process an order or firmware on a board whose heap has no room for it while it measures.

docs/protocol/boards.md, section 18, "Orders" and "Firmware".

Loaded when needed, in place of `core`, with the part of its interface that `ports.run` uses.

1. Earlier readings are with the gateway by then, or noted on flash; until its next restart the board does not measure.
2. An order is processed as usual (`orders.py`): it runs once, and its result is on flash before it is reported. So a
   power cut here is like any other, and the gateway repeats the order until it has the result.
3. The board identifies itself, reports the result, and waits for a moment, because another order may follow.
4. It restarts when the gateway has all that and sends nothing more, or accepts nothing. If the heap is too small even
   here, the board refuses the order with its signature, so that the gateway stops repeating it.
5. A firmware (`updating.py`) is accepted by a start of its own (`room.cbor`). It is announced again once the board has
   identified itself, and arrives part by part. When it is complete, or cannot continue, the board restarts. A refused
   firmware is remembered (`standing.py`).
6. Other messages are acknowledged and dropped, as if they had arrived while the board was off.
"""

import gc
import sys

try:
    from covey_boards.shared import cbor, line_orders, link_machine, messages
    from covey_boards.shared import tweetnacl as nacl

    from . import identity, orders, standing, updating
except ImportError:
    import cbor
    import line_orders
    import link_machine
    import messages
    import tweetnacl as nacl

    identity = orders = standing = updating = None
try:
    from micropython import const
except ImportError:
    const = int

# What measures, and is let go of.
_LOADED = (
    "batch outbox reporting sampling core losses inbox received restarting link_keys sensors my_sensors hardware "
    "standing"
)
_ORDER, _FIRMWARE = b"\x15", b"\x16"  # of `line_orders`
_BUSY_MS = const(4_000)
_STAYS_US = const(1_000_000)  # a gateway has the next order within a second of a result
_PATIENCE_US = const(20_000_000)  # with a gateway that takes nothing


class Attending:
    """A board that deals with orders, or takes a firmware, and does nothing else.

    Args:
        identity: of the board.
        storage: as `core.Core` has it.
        time: (wall, now, synchronised) of the last TIME, or None.
        order: of the line, or the kind of a firmware's announcement, which comes again.
        now_us: microseconds since boot.
    """

    sleeping = None

    def __init__(self, identity, storage, time, order, now_us):
        self.restart_wanted = False
        self.identity = identity
        self.link = link_machine.Link(nacl.randombytes(8))
        self._storage, self._time = storage, time
        self._takes_firmware = order == _FIRMWARE
        self._order = None if self._takes_firmware else order
        self._update = None
        self._more = self._takes_firmware  # is to come
        self._results = []  # that wait until the gateway knows who we are
        self._announced = True  # nobody is there yet who would have to be told that this takes long
        self._until_us = now_us + _PATIENCE_US

    def feed(self, raw, now_us):
        """Take bytes from the line."""
        self.link.receive_bytes(raw, now_us // 1000)

    def tick(self, now_us):
        """Do what is due, and return the bytes for the line."""
        now = now_us // 1000
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        event = self.link.next_event()
        while event is not None:
            self._handle(event, now_us)
            event = self.link.next_event()
        if self._order is not None:
            if self._announced:
                self._deal(now_us)
            else:
                self.link.busy(_BUSY_MS)
            self._announced = not self._announced
        elif self.link.state == link_machine.UP:
            for result in self._results:
                self.reporting.say(line_orders.RESULT, *result)
            self._results = []
        self.restart_wanted = self.restart_wanted or now_us >= self._until_us
        return self.link.bytes_to_send(now)

    @property
    def reporting(self):
        """What says something to the gateway: itself."""
        return self

    def say(self, *fields):
        """Queue a message for the gateway."""
        self.link.send(messages.to_line(*fields))

    def restart(self, now_us):
        """Restart, as an order demands: that happens in any case."""

    def _handle(self, event, now_us):
        if isinstance(event, link_machine.LinkUp):
            keys = self.identity.signing_public, self.identity.noise_public, self.identity.proof
            self.say(messages.IDENTIFY, *keys, self._enrolled(), messages.SOFTWARE)
        elif isinstance(event, link_machine.Message):
            self._receive(event, now_us)
        if isinstance(event, (link_machine.Delivered, link_machine.Message)) and not self._results:
            self._until_us = now_us + (_PATIENCE_US if self._more or self.link.queued_bytes() else _STAYS_US)

    def _enrolled(self):
        return cbor.record(cbor.decode(self._storage.read(messages.COLLECTOR_FILE), 128), (1, 1), 32, 32, 32)[2]

    def _receive(self, event, now_us):
        if event.data[1:2] in (b"\x16\x17" if self._takes_firmware else _ORDER):
            self._order = event.data
        else:
            try:
                fields = messages.from_line(event.data)
                if fields[0] == messages.TIME:
                    self._time = fields[1], now_us, fields[2]
            except cbor.WireError:
                pass
        self.link.acknowledge(event.token)

    def _clock(self, now_us):
        if self._time is None:
            return now_us, False
        return self._time[0] + now_us - self._time[1], self._time[2]

    def _deal(self, now_us):
        raw, self._order = self._order, None
        gc.collect()
        try:
            if self._takes_firmware:
                self._take(raw)
            else:
                self._obey(raw, now_us)
        except cbor.WireError:
            self._more = False
        self._until_us = now_us + (_PATIENCE_US if self._more or self._results else _STAYS_US)

    def _obey(self, raw, now_us):
        raws, raw = line_orders.from_line(raw)[1], None
        order = orders.name_of(raws[0])
        gc.collect()
        try:
            result = orders.obey(self, self._storage, None, self._clock(now_us), raws, now_us, order)
        except MemoryError:  # rule 4
            raws = None
            gc.collect()
            result = orders.refuse(self, self._storage, self._clock(now_us), order)
        self._results.append(result)

    def _take(self, raw):
        """Rule 5, of an announcement or a part."""
        try:
            kind, *fields = line_orders.from_line(raw)
            if kind == line_orders.FIRMWARE:
                self._update = None
                self._update = updating.Update(self._storage, *fields)
            elif self._update is not None:
                self._update.take(*fields)
            about = self._update and (self._update.id, self._update.state, self._update.offset, self._update.why)
        except MemoryError:  # as of an order
            digest = messages.announced_digest(raw) if self._update is None else self._update.id
            self._update, about = None, (digest, updating.REFUSED, 0, "no heap for it")
        if about is None:
            return
        self._more = about[1] == updating.RECEIVING
        if about[1] == updating.REFUSED:
            standing.remember(self._storage, about[0], about[3])
        self.say(line_orders.PROGRESS, *about)

    def out_of_memory(self):
        """Restart: there is no smaller mode."""
        self.restart_wanted = True

    def failed(self, reason):
        """Restart."""
        self.restart_wanted = True


def start(storage, now_us, time, order):
    """Return what deals with an order, or takes a firmware, in the place of a board."""
    global orders, standing, updating
    owner = identity
    if owner is None:
        for name in _LOADED.split():
            sys.modules.pop(name, None)
        gc.collect()
        gc.threshold(gc.mem_free() // 16)  # before the heap is full: what stays then lies together
        owner = __import__("identity")
        del sys.modules["identity"]
        if order == _FIRMWARE:
            standing, updating = __import__("standing"), __import__("updating")
        else:
            orders = __import__("orders")
    return Attending(owner.load_identity(storage), storage, time, order, now_us)
