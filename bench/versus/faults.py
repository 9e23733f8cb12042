"""What happens to each system. A fault strikes in the middle of steady traffic and returns when it is over.

Where messages must wait at the edge, the network is silent meanwhile. Damage is done while the programs are stopped by
SIGTERM, so that nothing but the damage is measured. With a program end its connections, and what is in them on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.versus.rig import Rig

_DOWN_S = 0.5
_DAY_S = 86_400
_WAITING = 400
"""Messages that wait at a side when its files are damaged, at most."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    name: str
    what: str
    strike: Callable[[Rig], None]
    needs_disk: bool = False
    needs_clock: bool = False
    """Whether it says nothing of a system whose clock the rig cannot set."""
    sets_clock: bool = False
    needs_relay: bool = False
    damages: bool = False
    """Whether it draws a place, so that one run says little."""


def _nothing(rig: Rig) -> None:
    rig.pause(rig.pace.fault_s)


def _killed(*parts: str) -> Callable[[Rig], None]:
    def strike(rig: Rig) -> None:
        programs = [rig.system.programs[part] for part in parts if part in rig.system.programs]
        for _ in range(rig.pace.times):
            for program in programs:
                program.kill()
            rig.system.link.reset()
            rig.pause(_DOWN_S)
            for program in programs:
                program.start()
            rig.pause(rig.chance.uniform(1.0, 4.0))

    return strike


def _partition(rig: Rig) -> None:
    rig.system.link.fall_silent()
    rig.pause(rig.pace.fault_s)
    rig.system.link.heal()


def _flapping(rig: Rig) -> None:
    for _ in range(5 * rig.pace.times):
        rig.system.link.reset()
        rig.pause(rig.chance.uniform(0.1, 1.5))


def _power_cut(side: str) -> Callable[[Rig], None]:
    def strike(rig: Rig) -> None:
        disk, programs = rig.disks[side], rig.system.parts_on(side)
        for number in range(rig.pace.times):
            if number:
                rig.pause(rig.chance.uniform(1.0, 4.0))
            for program in programs:
                program.freeze()
            disk.cut_power()
            for program in programs:
                program.kill()
            rig.system.link.reset()
            disk.restore_power()
            for program in programs:
                program.start()

    return strike


def _while_messages_wait(side: str, strike: Callable[[Rig], None]) -> Callable[[Rig], None]:
    """Let messages wait at the edge, whose network is silent, or at the hub, whose consumer is away."""

    def wait_and_strike(rig: Rig) -> None:
        if side == "edge":
            rig.system.link.fall_silent()
        rig.consumer_away = side == "hub"
        rig.pause(rig.pace.fault_s / 3)
        strike(rig)
        rig.system.link.heal()
        rig.consumer_away = False

    return wait_and_strike


def _full(side: str) -> Callable[[Rig], None]:
    def strike(rig: Rig) -> None:
        if side == "edge":
            rig.system.link.fall_silent()  # what cannot leave needs room
        rig.disks[side].fill()
        rig.pause(rig.pace.fault_s)
        rig.disks[side].free()
        rig.system.link.heal()

    return strike


def _damaged(damage: Callable[[Rig, list[Path]], None]) -> Callable[[Rig], None]:
    def strike(rig: Rig) -> None:
        rig.system.link.fall_silent()
        rig.rate = 1_000.0
        rig.await_acknowledged(_WAITING, rig.pace.fault_s)
        rig.rate = rig.pace.rate
        edge = rig.system.programs["edge"]
        edge.stop()
        rig.system.link.reset()
        damage(rig, [each for each in rig.system.data_files("edge") if each.stat().st_size])
        edge.start()
        rig.system.link.heal()

    return strike


def _flip_bit(rig: Rig, files: list[Path]) -> None:
    """Flip one bit, each of all files being equally likely."""
    file = rig.chance.choices(files, [each.stat().st_size for each in files])[0]
    with file.open("r+b") as opened:
        place = rig.chance.randrange(file.stat().st_size)
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ 1 << rig.chance.randrange(8)]))


def _truncate(rig: Rig, files: list[Path]) -> None:
    """Take off up to 4 KiB of the end of the largest file."""
    file = max(files, key=lambda each: each.stat().st_size)
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.truncate(max(0, size - rig.chance.randint(1, 4_096)))


def _clock_jumps(rig: Rig) -> None:
    """Set the edge's clock a year ahead, a year back, and right again, while it runs."""
    for days in (365, -365, 0):
        rig.clock.set(time.time() + days * _DAY_S)
        rig.pause(rig.pace.fault_s / 3)


def _week_offline(rig: Rig) -> None:
    """Queue a message a minute for a week, as fast as the edge takes them; the edge restarts each day."""
    rig.system.link.fall_silent()
    rig.rate = 1_000_000.0
    for day in range(7):
        rig.clock.set(time.time() + day * _DAY_S)
        rig.await_acknowledged(rig.pace.week // 7, 60.0)
        rig.system.programs["edge"].stop()
        rig.system.programs["edge"].start()
    rig.rate = rig.pace.rate
    rig.system.link.heal()


FAULTS = {
    each.name: each
    for each in (
        Fault("none", "nothing happens", _nothing),
        Fault("edge-killed", "SIGKILL of the agent, bridge or leaf at the edge, three times", _killed("edge")),
        Fault("hub-killed", "SIGKILL of the hub, three times", _killed("hub")),
        Fault("relay-killed", "SIGKILL of the broker between both, three times", _killed("relay"), needs_relay=True),
        Fault("all-killed", "SIGKILL of everything, three times", _killed("edge", "hub", "relay")),
        Fault("partition", "the network is silent for 15 s, connections stay open", _partition),
        Fault("flapping", "all connections between edge and hub are reset, 15 times", _flapping),
        Fault("edge-power-cut", "the edge loses its power, three times", _power_cut("edge"), needs_disk=True),
        Fault("hub-power-cut", "the hub loses its power, three times", _power_cut("hub"), needs_disk=True),
        Fault(
            "edge-killed-queue",
            "SIGKILL of the edge, three times, while its messages wait for the network",
            _while_messages_wait("edge", _killed("edge")),
        ),
        Fault(
            "edge-cut-queue",
            "the edge loses its power, three times, while its messages wait for the network",
            _while_messages_wait("edge", _power_cut("edge")),
            needs_disk=True,
        ),
        Fault(
            "hub-killed-queue",
            "SIGKILL of the hub, three times, while its messages wait for the consumer",
            _while_messages_wait("hub", _killed("hub")),
        ),
        Fault(
            "hub-cut-queue",
            "the hub loses its power, three times, while its messages wait for the consumer",
            _while_messages_wait("hub", _power_cut("hub")),
            needs_disk=True,
        ),
        Fault("edge-disk-full", "the edge's disk is full for 15 s, without a network", _full("edge"), needs_disk=True),
        Fault("hub-disk-full", "the hub's disk is full for 15 s", _full("hub"), needs_disk=True),
        Fault("flipped-bit", "one bit of the edge's files flips, 400 messages wait", _damaged(_flip_bit), damages=True),
        Fault("truncated", "the edge's largest file loses its last bytes", _damaged(_truncate), damages=True),
        Fault(
            "clock-jumps",
            "the edge's clock jumps a year ahead, a year back, and right",
            _clock_jumps,
            needs_clock=True,
            sets_clock=True,
        ),
        Fault("week-offline", "10,080 messages without a network, a restart each day", _week_offline, sets_clock=True),
    )
}
