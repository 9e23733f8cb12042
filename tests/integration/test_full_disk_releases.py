"""A full disk while a release comes, is installed or is confirmed: it ends, is told, and what is queued stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.limits.content import CONTENT_FREE_BYTES
from covey.limits.units import MIB
from tests.integration.gateway import Gateway
from tests.integration.installing import Fleet
from tests.small_disk import anywhere, mounted_disk
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_ROOM, _FILE = 32 * MIB, 8 * MIB
_OLD, _TEXTS = "good 1\n", [f"word {number}" for number in range(5)]


@contextmanager
def _site(folder: Path) -> Iterator[Fleet]:
    """A device on a small disk of its own, one that is away, and who tells them to install things."""
    disk = folder / "disk"
    disk.mkdir()
    made: list[Gateway] = []
    with mounted_disk(disk, CONTENT_FREE_BYTES + _ROOM), Broker(folder / "broker") as broker:

        def new_gateway(name: str) -> Gateway:
            made.append(Gateway(disk if name == "shed" else folder, name, broker))
            return made[-1]

        fleet = Fleet(new_gateway, folder, ("shed", "away"))
        fleet.start()
        try:
            yield fleet
        finally:
            for each in made:
                each.kill()


def _filling(shed: Gateway) -> str:
    """Return a program that fills the disk the first time, and fails for it."""
    program, filler = shed.state / "fill", shed.state / "filler"
    program.write_text(f"#!/bin/sh\ntest -e {filler} && exit 0\ncat /dev/zero > {filler}\nexit 9\n")
    program.chmod(0o700)
    return str(program)


def fill_the_disk_at_each_step(folder: Path) -> None:
    """Have it full when the file is to come, when it has been put in its place, and when it is confirmed."""
    with _site(folder) as fleet:
        shed, away = fleet.sheds
        away.end()
        for text in _TEXTS:
            shed.ok("message", "send", "--text", text, "--to", away.author)
        filler, target = shed.state / "filler", shed.state / "pump"
        target.write_text(_OLD)
        steps = {
            "fetch": ((), "not installed, on sha256 ", "no room for a file of"),
            "install": ((f"--hook={_filling(shed)}",), "rolled back to sha256 ", "install ended with 1"),
            "confirm": ((f"--check={_filling(shed)}",), "rolled back to sha256 ", "confirm ended with 9"),
        }
        for step, (options, begins, why) in steps.items():
            fleet.define(shed, "covey", "installer", "file", f"--to={target}", *options)
            if step == "fetch":
                filler.write_bytes(bytes(_ROOM - _FILE))
            outcome, _code, said = fleet.outcome(fleet.order(f"{step} {'x' * _FILE if step == 'fetch' else ''}\n"))
            assert outcome == "failed", said
            assert said.startswith(begins), said
            assert why in said
            assert filler.stat().st_size > _ROOM // 2, "it was full: nothing else ends what fills it"
            filler.unlink()
            assert target.read_text() == _OLD, step
            assert shed.queued() >= len(_TEXTS), step
        away.start("run", "--no-sensors")
        taken: list[str] = []

        def has_come() -> bool:
            taken.extend(away.ok("message", "receive", "--all").splitlines())
            return len([text for text in _TEXTS if text in "\n".join(taken)]) == len(_TEXTS)

        wait_until(has_come, "what was queued has come")


def test_a_disk_that_is_full_at_a_step_of_a_release_ends_it_and_harms_nothing(tmp_path: Path) -> None:
    anywhere(fill_the_disk_at_each_step, tmp_path)
