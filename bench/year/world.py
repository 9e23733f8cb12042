"""The world: a hub with its relay, four devices, and the hours of the plan.

An hour is a jump of the clock, after which each device's program hands its agent one reading. At the end of each half
day everybody lives for a moment, at `SPEED` times the usual speed: connections come back, messages go, orders arrive.
How long that moment is follows from the time that is left, so a run takes as long as it is told. On a machine that is
too slow for that, it lasts until the devices with a network have delivered: their time passes by the real clock, and
they would have a year with no time in it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.clock import Clock
from bench.versus.link import Link
from bench.year.ledger import Account
from bench.year.machine import Machine, wait_until
from bench.year.plan import BUOY, EDGES, HOUR_S, HUB, Event, Plan, What
from broker_conf.mosquitto.broker import free_port
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.state_folder import StateFolder
from covey.app.relays.serving_relay import served
from covey.errors import CoveyError, TransientError
from demo.device import COVEY

SPEED = 60.0
"""Of time while everybody lives. An agent on a busy machine answers in some tenths of a second: within seconds of this
time, as one on a slow machine does."""

_SET_UP_SPEED = 2.0
_HALF_DAY = 12
_ALIVE_S_MIN = 0.15
_DELIVERS_S = 3.0
"""Real time for a half day's messages, where some cannot be delivered: the hub's disk is full, or a clock is wrong."""
_LOOKS_S = 0.1
_PATIENCE_S = 60.0
"""Real time after the last message that was delivered, or order that was obeyed."""
_STARTS = 3
_SETTLES_S = 1.0
_MANY = 1_000_000
"""Messages of an agent that does not answer."""
_ORDER = "app.order"


@dataclass(slots=True)
class Seen:
    """What the world has seen besides readings and orders."""

    tables: int = 0
    failed_tables: list[str] = field(default_factory=list)
    """What the engine of the tables said before it started again."""
    kills: int = 0
    certificates: set[str] = field(default_factory=set)
    noise_keys: dict[str, set[str]] = field(default_factory=dict)
    alive_s: float = 0.0
    """How much of the world's time was lived, and not jumped over."""


class World:
    """Everything, running."""

    def __init__(self, folder: Path, plan: Plan, say: Callable[[datetime, str], None]) -> None:
        self.plan, self.folder, self._say = plan, folder, say
        self.clock = Clock(folder, wall=plan.relay_begins.timestamp(), speed=_SET_UP_SPEED)
        self.hub = Machine(folder, HUB, self.clock)
        self.edges = {name: Machine(folder, name, self.clock) for name in EDGES}
        self.accounts = {name: Account(name) for name in EDGES}
        self.orders = 0
        self.seen = Seen()
        self._relay_is_down = False
        self._pool = ThreadPoolExecutor(len(EDGES))

    @property
    def machines(self) -> list[Machine]:
        """The hub, then the devices."""
        return [self.hub, *self.edges.values()]

    @property
    def tables(self) -> Path:
        """Where the readings are taken."""
        return self.folder / "tables"

    def set_up(self) -> None:
        """Serve a relay, wait until its certificate is as old as the plan says, and let the devices join."""
        hub, port = self.hub, free_port()
        words = ("relay", "serve", "--label", HUB, "--host", "127.0.0.1", "--port", str(port))
        hub.add_program("relay", words)
        hub.start_relay()
        hub.set_up()
        hub.ok("config", "set", "operations.operators", hub.json("key", "show")["signing_key"])
        hub.ok("group", "create", "--capability", "collector")
        hub.add_program("agent", ("collect", "--no-sensors")).start()
        self.note_keys()
        self.jump_to(self.plan.begins.timestamp())
        for name, machine in self.edges.items():
            self._join(machine, Link(port))
            if name == BUOY:
                machine.ok("config", "set", "link.connect", "every 12h")
        for machine in self.machines:
            machine.programs["agent"].start()
        wait_until(lambda: all(each.client.answers() for each in self.machines), "an agent does not answer")
        self.note_keys()
        for machine in self.machines:
            machine.disk.synchronise()

    def _join(self, machine: Machine, link: Link) -> None:
        machine.link = link
        machine.ok("join", "-", "--label", machine.name, "--obey", feed=self.hub.ok("invite", "--no-wait"))
        machine.ok("relay", "set", f"mqtts://127.0.0.1:{link.port}")
        machine.set_up()
        machine.add_program("agent", ("run", "--no-sensors"))

    def live_through(self, wall_s: float, every_hours: int) -> None:
        """Let the year pass, in about so much real time; devices measure every so many hours."""
        ends = time.monotonic() + wall_s
        self.run(SPEED)
        begins_s = self.clock.wall()
        for first in range(0, self.plan.hours, _HALF_DAY):
            began = time.monotonic()
            for hour in range(first, first + _HALF_DAY):
                events = self.plan.at(hour)
                if events or hour % every_hours == 0:
                    self.jump_to(begins_s + hour * HOUR_S)
                for event in events:
                    self._happen(event)
                if hour % every_hours == 0:
                    list(self._pool.map(self._measure, EDGES))
            left = (self.plan.hours - first) // _HALF_DAY
            self.live(max(_ALIVE_S_MIN, (ends - began) / left - (time.monotonic() - began)))
            self._let_deliver()
            self._look_for_orders()

    def live(self, seconds: float) -> None:
        """Let everybody live for so much real time."""
        before = self.clock.wall()
        time.sleep(seconds)
        self.seen.alive_s += self.clock.wall() - before

    def _let_deliver(self) -> None:
        """Let everybody live until those that reach the relay have delivered, but for the buoy, which waits for its
        window."""
        until = time.monotonic() + _DELIVERS_S
        waits = [
            machine
            for name, machine in self.edges.items()
            if name != BUOY and machine.is_on and machine.has_network and not self._relay_is_down
        ]
        while time.monotonic() < until:
            waits = [each for each in waits if not each.has_delivered()]
            if not waits:
                return
            self.live(_LOOKS_S)

    def jump_to(self, at_s: float) -> None:
        """Let the time until this moment pass at once, everywhere."""
        seconds = at_s - self.clock.wall()
        if seconds > 0:
            for clock in self._clocks:
                clock.jump(seconds)

    def run(self, speed: float) -> None:
        """Let time pass at this speed, everywhere."""
        for clock in self._clocks:
            clock.run(speed)

    @property
    def _clocks(self) -> list[Clock]:
        return [self.clock, *(each.clock for each in self.machines)]

    def _measure(self, name: str) -> None:
        """Let a device's program measure once."""
        machine, account = self.edges[name], self.accounts[name]
        if not machine.is_on:
            return
        for number in account.measure():
            at_s = None if machine.is_wrong or self.hub.is_wrong else self.clock.wall()
            if not machine.publish(number):
                account.refused += 1
                break
            account.acknowledge(number, at_s)

    def _look_for_orders(self) -> None:
        """Let every device's program obey what its agent hands it."""
        for name, machine in self.edges.items():
            with suppress(CoveyError, OSError):
                for setting in machine.client.settings(_ORDER):
                    if setting.state == "handed_over" and setting.value is not None:
                        self.accounts[name].obey(int(setting.value))
                        machine.client.report_setting(setting, setting.value)

    def settle(self) -> None:
        """Let everybody live until nothing waits and the newest order is obeyed, or patience ends; fill the tables."""
        until, least = time.monotonic() + _PATIENCE_S, self._left()
        while time.monotonic() < until and least != 0:
            left = self._left()
            if left < least:
                until, least = time.monotonic() + _PATIENCE_S, left
            self.live(_SETTLES_S)
            self.jump_to(self.clock.wall() + _HALF_DAY * HOUR_S)  # the buoy's next window
            self.live(_SETTLES_S)
        self.live(_SETTLES_S)
        self.note_keys()
        self.take_into_tables()

    def _left(self) -> int:
        """Return how much waits: messages, and devices that do not obey the newest order."""
        self._look_for_orders()
        waiting = [machine.waiting() for machine in self.edges.values()]
        deaf = sum(account.obeyed[-1:] != [self.orders] for account in self.accounts.values())
        return deaf + sum(_MANY if each is None else each for each in waiting)

    def _happen(self, event: Event) -> None:
        machine = self.hub if event.machine == HUB else self.edges[event.machine]
        if event.is_news:
            self._say(datetime.fromtimestamp(self.clock.wall(), UTC), event.said)
        if event.what in _OF_MACHINES:
            _OF_MACHINES[event.what](machine)
        match event.what:
            case What.RELAY_DOWN | What.RELAY_UP:
                self._relay_is_down = event.what is What.RELAY_DOWN
            case What.CLOCK_WRONG:
                for name, account in self.accounts.items():
                    if machine.name in {name, HUB}:
                        account.clear_newest_times()
                machine.set_wrong(-int(self.clock.wall()) if event.seconds is None else event.seconds)
            case What.KILL if machine.is_on:
                self.seen.kills += 1
                machine.restart_agent()
            case What.ORDER:
                self.order()
            case What.ROTATE:
                for each in self.machines:
                    each.rotate_log()
            case What.TABLES:
                self.note_keys()
                self.take_into_tables()

    def order(self) -> None:
        """Give every device a newer order."""
        with suppress(TransientError):  # the hub's disk is full: no order was given
            self.hub.ok("setting", "set", _ORDER, str(self.orders + 1))
            self.orders += 1

    def note_keys(self) -> None:
        """Note the relay's certificate and every device's noise key."""
        from cryptography import x509

        folder = StateFolder.at(self.hub.state)
        pem = served(folder).server_pem(StorageKey.of(folder.identity()))
        certificate = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
        self.seen.certificates.add(f"{certificate.serial_number:x}")
        for machine in self.machines:
            if machine.state.exists() and machine.is_on:
                keys = self.seen.noise_keys.setdefault(machine.name, set())
                keys.add(machine.json("key", "show")["noise_key"])

    def take_into_tables(self) -> None:
        """Fill the tables from the vault; an engine that fails starts again, as its unit has it.

        Raises:
            TransientError: it failed three times.
        """
        clocks = self.folder / "tables-clock"
        clocks.mkdir(exist_ok=True)
        vault, key_file = self.hub.state / "vault", self.hub.state / "vault.key"
        words = ["tables", "run", vault, self.tables, "--key-file", key_file, "--available-now"]
        clock = Clock(clocks, wall=self.clock.wall())  # at the real speed: it would have to wait for nobody
        for _ in range(_STARTS):
            done = subprocess.run(
                [*COVEY, *map(str, words)],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, **clock.environment},
            )
            if not done.returncode:
                self.seen.tables += 1
                return
            self.seen.failed_tables.append(done.stderr.strip().splitlines()[0])
        raise TransientError(f"the tables could not be filled: {done.stderr.strip()}")

    def close(self) -> None:
        """End everything."""
        self.run(1.0)
        self._pool.shutdown()
        for machine in self.machines:
            machine.close()


_OF_MACHINES: dict[What, Callable[[Machine], None]] = {
    What.SILENCE: lambda machine: machine.lose_network(),
    What.NETWORK: lambda machine: machine.regain_network(),
    What.OFF: lambda machine: machine.cut_power(),
    What.ON: lambda machine: machine.restore_power(),
    What.RELAY_DOWN: lambda machine: machine.programs["relay"].kill(),
    What.RELAY_UP: lambda machine: machine.start_relay(),
    What.DISK_FULL: lambda machine: machine.fill_disk(),
    What.DISK_FREE: lambda machine: machine.disk.free(),
    What.CLOCK_RIGHT: lambda machine: machine.set_right(),
}
