"""A machine of the world: a device's state on a disk of its own, a wall clock of its own, and the programs on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.clock import Clock
from bench.versus.disk import MIB, Disk
from bench.versus.link import Link
from bench.versus.program import Program
from covey.adapters.state_folder import StateFolder
from covey.client import Client
from covey.errors import CoveyError, TransientError
from demo.device import COVEY

_COMMAND_S, _READY_S = 300.0, 120.0
_LEAST_WAIT_S = 0.01
"""Real time: an agent looks for new work four times a second, which would be 240 times."""


class Machine:
    """One device, which runs one or two programs of Covey."""

    def __init__(self, folder: Path, name: str, world: Clock) -> None:
        """Make one whose clock is right; `world` has the right time."""
        self.name, self._world = name, world
        clocks = folder / f"{name}-clock"
        clocks.mkdir()
        self.clock = Clock(clocks, wall=world.wall(), speed=world.speed, least_s=_LEAST_WAIT_S)
        self.disk = Disk(folder / name, 64 * MIB)
        self.state = folder / name / "state"
        self.log = folder / f"{name}.log"
        self.rotations = 0
        self.programs: dict[str, Program] = {}
        self.link: Link | None = None
        self._socket = folder / f"{name}.sock"
        self.client = Client(self._socket)
        self.signing_public = ""
        self.is_wrong = False
        """Whether its wall clock is wrong."""
        self.is_on = True
        self.has_network = True
        self.set_right()

    def ok(self, *words: str, feed: str = "") -> str:
        """Run one command that must succeed; return what it printed.

        Raises:
            TransientError: it failed; the message is what it said.
        """
        done = subprocess.run(
            [*COVEY, words[0], "--state", str(self.state), *words[1:]],
            input=feed.encode(),
            capture_output=True,
            timeout=_COMMAND_S,
            check=False,
            env={**os.environ, **self.clock.environment},
        )
        if done.returncode:
            said = f"{done.stdout.decode().strip()} {done.stderr.decode().strip()}".strip()
            raise TransientError(f"covey {' '.join(words[:2])} of {self.name} ended with {done.returncode}: {said}")
        return done.stdout.decode()

    def json(self, *words: str) -> Any:
        """Run one command with --json that must succeed; return the document."""
        return json.loads(self.ok(*words, "--json"))

    def add_program(self, name: str, words: Sequence[str]) -> Program:
        """Prepare a program of Covey's on this machine."""
        command = [*COVEY, words[0], "--state", str(self.state), *words[1:]]
        program = Program(command, self.log, self.clock.environment)
        self.programs[name] = program
        return program

    @property
    def deaths(self) -> int:
        """How often one of its programs has ended by itself."""
        return sum(each.deaths for each in self.programs.values())

    def publish(self, number: int) -> bool:
        """Hand a reading to the agent; return whether it has acknowledged it. The same number queues it once."""
        try:
            return self.client.publish([{"n": "number", "v": number}], key=f"number-{number}") == 1
        except (CoveyError, OSError):
            return False

    def waiting(self) -> int | None:
        """Return how many messages wait in its outbox; None while its agent does not answer."""
        outbox = self._outbox()
        return None if outbox is None else int(outbox["messages"])

    def has_delivered(self) -> bool:
        """Return whether the collector has acknowledged all its readings."""
        outbox = self._outbox()
        return outbox is not None and outbox["bytes_by_class"]["telemetry"] == 0

    def _outbox(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.client.status()["outbox"]
        except (CoveyError, OSError):
            return None
        return found

    def set_wrong(self, seconds: int) -> None:
        """Have its wall clock be wrong by so much; no time service has it in hand."""
        self.is_wrong = True
        self.clock.set(self._world.wall() + seconds)
        self.clock.synchronise(False)

    def set_right(self) -> None:
        """Have a time service set its wall clock right."""
        self.is_wrong = False
        self.clock.set(self._world.wall())
        self.clock.synchronise(True)

    def set_up(self) -> None:
        """Let programs reach its agent."""
        self.ok("config", "set", "api.socket", str(self._socket))
        self.signing_public = StateFolder.at(self.state).identity().signing_public.hex()

    def lose_network(self) -> None:
        """Have nothing arrive and nothing leave; connections stay open."""
        assert self.link is not None
        self.link.fall_silent()
        self.has_network = False

    def regain_network(self) -> None:
        """Let everything pass again."""
        assert self.link is not None
        self.link.heal()
        self.has_network = True

    def fill_disk(self) -> None:
        """Take all the room of its disk, if it has one of its own."""
        if self.disk.real:
            self.disk.fill()

    def cut_power(self) -> None:
        """Lose the power: what is not on the disk may be gone."""
        for program in self.programs.values():
            program.freeze()
        if self.disk.real:
            self.disk.cut_power()
        for program in self.programs.values():
            program.kill()
        self.is_on = False

    def restore_power(self) -> None:
        """Start again."""
        if self.disk.real:
            self.disk.restore_power()
        for program in self.programs.values():
            program.start()
        self.is_on = True
        self.await_agent()

    def start_relay(self) -> None:
        """Start the relay, and wait until it is served: it takes a jump of the clock for a broker that does not start.

        Raises:
            TransientError: it is not served.
        """
        before = self._relays_served()
        self.programs["relay"].start()
        wait_until(lambda: self._relays_served() > before, "the relay is not served")

    def _relays_served(self) -> int:
        return self.log.read_text().count("serving the relay") if self.log.exists() else 0

    def restart_agent(self) -> None:
        """Kill the agent, and start it again."""
        self.programs["agent"].kill()
        self.programs["agent"].start()
        self.await_agent()

    def await_agent(self) -> None:
        """Wait until the agent answers.

        Raises:
            TransientError: it does not.
        """
        wait_until(self.client.answers, f"the agent of {self.name} does not answer")

    def rotate_log(self) -> None:
        """Copy the log away, and truncate it, as logrotate does with `copytruncate`."""
        if self.log.exists() and self.log.stat().st_size:
            self.rotations += 1
            shutil.copyfile(self.log, self.log.with_suffix(f".log.{self.rotations}"))
            os.truncate(self.log, 0)

    def close(self) -> None:
        """End its programs, its network and its disk."""
        for program in reversed(self.programs.values()):
            program.kill()
        if self.link is not None:
            self.link.close()
        self.client.close()
        self.disk.close()


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition.

    Raises:
        TransientError: it does not become true in time; the message is `otherwise`.
    """
    until = time.monotonic() + _READY_S
    while not condition():
        if time.monotonic() > until:
            raise TransientError(otherwise, hint="keep the logs with --folder, and read them")
        time.sleep(0.02)
