"""One system under one fault: a producer at the edge, a consumer at the hub, the fault, and what the ledger says.

The producer hands over one message after the other, at a steady rate, each until it is acknowledged. It goes on during
the fault and after it, until a message that it has made after the fault has arrived, or patience ends. Then the rig
waits until all that was acknowledged has arrived, or nothing has for some time. If something is missing then, the rig
restarts every program once and waits again: this tells what is lost from what is stuck.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.clock import Clock
from bench.versus.disk import Disk
from bench.versus.ledger import Balance, Ledger, content
from bench.versus.system import NotAcknowledgedError, Place, System

_RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class Pace:
    """How long and how much; `FULL` is what is published, `SHORT` shows that everything runs."""

    rate: float
    """Messages a second."""
    warm_s: float
    fault_s: float
    """Of a fault that lasts."""
    times: int
    """Of a fault that strikes and is over, within one run."""
    week: int
    """Messages of a week offline."""
    rounds: int
    """Runs with damaged files, each with another draw."""
    patience_s: float
    """Until something produced after the fault must have arrived."""
    quiet_s: float
    """Without an arrival, after which the rest counts as not delivered."""


FULL = Pace(40.0, 3.0, 15.0, 3, 10_080, 3, 90.0, 30.0)
SHORT = Pace(40.0, 1.0, 2.0, 1, 300, 1, 40.0, 15.0)


class Rig:
    """One system, running."""

    def __init__(self, system: type[System], folder: Path, pace: Pace, seed: int) -> None:
        folder.mkdir()
        (folder / "rig").mkdir()
        self.pace, self.chance = pace, random.Random(seed)
        self.disks = {side: Disk(folder / side) for side in ("edge", "hub")}
        self.system = system(Place(folder / "edge", folder / "hub", folder / "rig"))
        self.clock = Clock(folder / "rig")
        self.ledger = Ledger()
        self.rate = pace.rate
        self.consumer_away = False
        """Set it, and what arrives waits at the hub."""
        self._next = 0
        self._ended, self._produced = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._produce, self._consume)]

    def run(self, strike: Callable[[Rig], None], *, sets_clock: bool) -> Balance:
        """Let a fault happen, one that sets the edge's clock or not; return the balance."""
        try:
            if self.system.reads_c_clock and sets_clock:
                self.system.edge_environment = self.clock.environment
            self.system.set_up()
            for thread in self._threads:
                thread.start()
            self._await(lambda: self.ledger.arrivals > 0, self.pace.patience_s)
            for disk in self.disks.values():
                disk.synchronise()  # it has been set up long ago
            self.pause(self.pace.warm_s)
            strike(self)
            self.rate = self.pace.rate
            self.ledger.end_fault(self._next + 1)
            self.pause(self.pace.warm_s)
            self._await(lambda: self.ledger.delivers_new, self.pace.patience_s)
            self._produced.set()
            self._await_rest()
            before = self.ledger.balance()
            if not before.lost:
                return before
            self._restart_everything()
            self._await_rest()
            return replace(self.ledger.balance(), undelivered=before.lost, recovery_s=before.recovery_s)
        finally:
            self._ended.set()
            self._produced.set()
            self.system.close()
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(30)
            for disk in self.disks.values():
                disk.close()

    def _restart_everything(self) -> None:
        """Do what a person tries first."""
        for program in self.system.programs.values():
            program.stop()
        for program in self.system.programs.values():
            program.start()

    def abort(self) -> None:
        """Have `run` end soon."""
        self._ended.set()

    def pause(self, seconds: float) -> None:
        """Let the system work."""
        self._ended.wait(seconds)

    def await_acknowledged(self, more: int, patience_s: float) -> None:
        """Wait until the edge has acknowledged so many more, or this time is over."""
        target = self.ledger.acknowledged + more
        self._await(lambda: self.ledger.acknowledged >= target, patience_s)

    def _await(self, condition: Callable[[], bool], patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while not condition() and time.monotonic() < until and not self._ended.is_set():
            time.sleep(0.05)

    def _await_rest(self) -> None:
        arrivals, since = -1, time.monotonic()
        while self.ledger.missing and not self._ended.is_set():
            if self.ledger.arrivals != arrivals:
                arrivals, since = self.ledger.arrivals, time.monotonic()
            if time.monotonic() - since > self.pace.quiet_s:
                return
            time.sleep(0.1)
        time.sleep(min(2.0, self.pace.warm_s))  # for duplicates

    def _produce(self) -> None:
        while not self._produced.is_set():
            began = time.monotonic()
            try:
                self.system.publish(self._next, content(self._next))
            except NotAcknowledgedError:
                self._produced.wait(_RETRY_S)
                continue
            self.ledger.acknowledge(self._next)
            self._next += 1
            self._produced.wait(max(0.0, 1 / self.rate - (time.monotonic() - began)))

    def _consume(self) -> None:
        while not self._ended.is_set():
            try:
                if not self.consumer_away:
                    self.system.receive(self.ledger.arrive, lambda: self.consumer_away or self._ended.is_set())
            except OSError:
                pass  # the hub has gone
            self._ended.wait(_RETRY_S)
