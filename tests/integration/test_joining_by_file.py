"""A fleet that nobody stands beside: a file for each gateway, a real relay with accounts, all of them at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from broker_conf.mosquitto.broker import find_mosquitto, free_port
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]


class Machine(Gateway):
    """A machine that is no device yet."""

    def set_up(self, broker: object = None, url: str = "") -> None:
        """Leave that to commands."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Machine]]:
    """Make machines that have mosquitto; what runs on them is ended at the end."""
    program, environment = find_mosquitto()
    monkeypatch.setenv("PATH", f"{environment.get('PATH', os.defpath)}{os.pathsep}{program.parent}")
    if libraries := environment.get("LD_LIBRARY_PATH"):
        monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    made: list[Machine] = []

    def make(name: str) -> Machine:
        made.append(Machine(tmp_path, name))
        return made[-1]

    yield make
    for each in made:
        each.end()


def states(hub: Machine) -> dict[str, str]:
    """Return what has become of each file, by its label."""
    lines = hub.ok("invite", "--list").splitlines()[1:]
    return {line.split()[0]: line.split()[2] for line in lines}


def test_gateways_join_by_their_files_all_at_once(machine: Callable[[str], Machine], tmp_path: Path) -> None:
    hub, server = machine("hub"), machine("hub")
    server.log = server.log.with_name("relay.log")
    server.start("relay", "serve", "--label", "hub", "--port", str(free_port()))
    wait_until(lambda: server.log.exists() and "serving the relay" in server.log.read_text(), "the relay is served")
    files = tmp_path / "files"
    hub.ok("group", "create")
    labels = [f"house-{number}" for number in range(1, 5)]
    hub.ok("invite", "--batch", "4", "--label-prefix", "house-", "-o", str(files))
    accounts = hub.state / "broker" / "passwords"
    assert sorted(each.name for each in files.iterdir()) == [f"{label}.covey" for label in labels]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files.iterdir()} == {0o600}
    made = len(accounts.read_text().splitlines())

    gateways = [machine(f"machine {label}") for label in labels]
    for gateway, label in zip(gateways, labels, strict=True):  # the hub sleeps, and they wait for it
        gateway.start("join", str(files / f"{label}.covey"), "--run")
    wait_until(lambda: all("looking" in each.log.read_text() for each in gateways), "all look for the hub")
    hub.start("run")
    wait_until(lambda: states(hub) == dict.fromkeys(labels, "joined"), "all have joined")
    members = hub.json("group", "show")["members"]
    assert sorted(each["label"] for each in members) == [*labels, "hub"]
    wait_until(lambda: len(accounts.read_text().splitlines()) == made, "the files' accounts are gone")

    second = machine("somebody else")
    assert "was used" in second.fails("join", str(files / "house-1.covey"), code=1)
    assert len(hub.json("group", "show")["members"]) == 5


def test_a_machine_that_does_not_know_the_time_yet_goes_on_trying(
    machine: Callable[[str], Machine], tmp_path: Path
) -> None:
    server = make_certificate(tmp_path / "tls", 10, 400)
    with Broker(tmp_path / "broker", certificate=server) as broker:
        hub, pi = Gateway(tmp_path, "hub"), machine("pi")
        hub.ok("relay", "set", "mqtts://hub.invalid", "--ca-file", str(server[0]))
        hub.ok("config", "set", "broker.password_file", str(tmp_path / "broker" / "passwords"))
        hub.ok("group", "create")
        hub.ok("invite", "--batch", "1", "-o", str(tmp_path / "files"))
        pi.start("join", str(tmp_path / "files" / "gateway-1.covey"), "--relay", broker.url, "--run")
        wait_until(lambda: "not yet valid" in pi.log.read_text(), "it says what is wrong")
        assert "trying again" in pi.log.read_text()
        assert not pi.ended_by_itself
