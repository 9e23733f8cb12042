"""Boards that sleep, in the seeded world of `firmware_simulation`: a lifetime ends at `deep`, and the next begins from
what the clock's memory, or flash, has kept.

`simulate` raises AssertionError where a promise of `firmware_bridge/covey_boards/device/sleeping.py` is broken.
"""

try:
    from covey_boards.device import sleeping
    from covey_boards.shared import link_machine
    from covey_boards.shared import tweetnacl as nacl
    from hil.on_board import firmware_simulation as simulation
except ImportError:
    import firmware_simulation as simulation
    import link_machine
    import sleeping
    import tweetnacl as nacl

FILE = "sleep.cbor"
MINUTES_US = 60_000_000


class AsleepError(Exception):
    """The board sleeps deeply: its RAM is gone."""


class Power:
    """What `power.Power` is, of a machine whose clock has a memory of so many bytes."""

    def __init__(self, world, memory_bytes):
        self.world, self.memory_bytes, self.memory = world, memory_bytes, b""
        self.lights = self.deeps = self.flash_writes = self.longest = 0
        self.pin_after_us = None  # how soon a pin ends the next sleep

    def now_us(self):
        """Return the time of a clock that never stops."""
        return self.world.now_us

    def keep(self, state):
        """Keep a state, where it is short enough."""
        self.longest = max(self.longest, len(state))
        self.memory = state if len(state) <= self.memory_bytes else b""
        return bool(self.memory)

    def write(self, state):
        """Write a state."""
        self.flash_writes += 1
        self.world.files.write(FILE, state)
        return True

    def take(self):
        """Return the state, once."""
        state, self.memory = self.memory, b""
        written = self.world.files.read(FILE)
        if written:
            self.flash_writes += 1
            self.world.files.write(FILE, b"")
        return state or written or None

    def light(self, milliseconds):
        """Sleep; the gateway lives on."""
        self.lights += 1
        self._pass(1000 * milliseconds)

    def deep(self, milliseconds):
        """Sleep, and forget."""
        self.deeps += 1
        self._pass(1000 * milliseconds)
        raise AsleepError

    def _pass(self, wait_us):
        world, asked_us = self.world, wait_us
        if self.pin_after_us is not None:
            wait_us, self.pin_after_us = min(wait_us, self.pin_after_us), None
        world.asleep_us += wait_us
        end_us = world.now_us + wait_us
        while world.now_us < end_us:
            world.now_us = min(end_us, world.now_us + 500_000)
            world.gateway.turn(world.now_us)
            raw = world.gateway.link.bytes_to_send(world.now_us // 1000)
            knows = world.gateway.asleep and world.gateway.link.state == link_machine.UP
            assert not raw or not knows or world.permille, "spoken to in its sleep"
        assert asked_us >= wait_us


class World(simulation.World):
    """A world whose board sleeps."""

    def __init__(self, seed, deep, memory_bytes=2_048, permille=0, **settings):
        self.power, self.deep, self.asleep_us = Power(self, memory_bytes), deep, 0
        super().__init__(seed, permille, **settings)

    def boot(self):
        """Start the board, with what it has kept."""
        super().boot()
        sleeping.begin(self.board, self.power, self.deep, Clock(self))

    def clock_us(self):
        """Return microseconds of the board's clock."""
        return self.now_us - self.booted_us

    def turn(self):
        """One step of both ends; the board sleeps where it has decided to."""
        super().turn()
        try:
            self.board.sleeping.sleep(Clock(self))
        except AsleepError:
            self.sensor = simulation.Sensor()
            self.boot()


class Clock:
    """A board's clock."""

    def __init__(self, world):
        self._world = world

    def now_us(self):
        """Return it."""
        return self._world.clock_us()

    @property
    def _now(self):
        """What a sleep is added to."""
        return self._world.clock_us()

    @_now.setter
    def _now(self, later_us):
        self._world.booted_us -= later_us - self._world.clock_us()


def simulate(seed, deep, memory_bytes=2_048, minutes=180, permille=0):
    """Sleep through hours with an absence of the gateway; return the world. Each reading comes once, in order."""
    settings = {"interval_us": 2 * MINUTES_US, "batch_us": 10 * MINUTES_US, "outbox_bytes": 8_192}
    world = World(seed, deep, memory_bytes, permille, **settings)
    world.run(60 * minutes // 3)
    world.absent = True
    world.run(2_400)
    world.absent = False
    world.run(60 * minutes - 20 * minutes - 2_400)
    count = world.sensor.count
    world.run(3_000, lambda: count in world.collector.values())
    values = world.collector.values()
    assert values == list(range(1, len(values) + 1)), "each reading once, in order"
    assert len(values) >= count, "and all of them"
    assert len(world.collector.links) == 1, "one incarnation"
    assert not world.collector.lost + world.collector.lost_earlier, "nothing lost"
    assert world.asleep_us > 50 * world.now_us // 60, "it sleeps most of the time"
    return world


def run():
    """Sleep deeply, with a clock's memory and without, and print what came of it."""
    digest = bytes(32)
    for deep, memory_bytes in ((True, 2_048), (True, 0)):
        world = simulate(50 + memory_bytes % 7, deep, memory_bytes, minutes=90)
        digest = nacl.crypto_hash(digest + world.hash)[:32]
        power, linked = world.power, world.collector.versions.count(simulation.LINKED)
        print("slept", deep, memory_bytes, power.lights, power.deeps, power.flash_writes, power.longest, linked)
    print("".join(["%02x" % byte for byte in digest[:8]]))  # noqa: UP031
