"""Doors whose agent or process is killed amid their work: in, a reading is once in the vault; out, none is missing."""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.collected_fleet import CollectedFleet
from tests.house_broker import HouseBroker
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.test_sensors import add_sensor
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker

_KILLS = 3
_POSTS = 60
_DEVICES = 12
_FIRST_S = 1_790_000_000
_COUNTS = """
import os, sys, time
n = int(open(sys.argv[1]).read())
with open(sys.argv[1] + ".starts", "a") as file:
    file.write(f"{n}\\n")
while True:
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(n + 1))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    print('{"n":"level","v":%d}' % n, flush=True)
    n += 1
    time.sleep(0.005)
"""


class _Poster:
    """Posts readings one by one to an agent's socket, each again and again until it is told that it was taken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.line_protocol = self.senml = 0
        self._threads = [Thread(target=each, daemon=True) for each in (self._post_lines, self._post_senml)]
        for each in self._threads:
            each.start()

    @property
    def taken(self) -> int:
        return min(self.line_protocol, self.senml)

    def _post_lines(self) -> None:
        """As Telegraf does: no key; that it is the same batch, its lines and their times say."""
        for number in range(_POSTS):
            line = f"tank level={number} {_FIRST_S + number}".encode()
            wait_until(lambda line=line: self._is_taken("/api/v2/write?precision=s", line, {}, 204))
            self.line_protocol += 1

    def _post_senml(self) -> None:
        for number in range(_POSTS):
            record, headers = f'{{"n":"flow","v":{number}}}', {"Idempotency-Key": f"flow-{number}"}
            wait_until(
                lambda record=record, headers=headers: self._is_taken("/v1/publish", record.encode(), headers, 200)
            )
            self.senml += 1

    def _is_taken(self, path: str, body: bytes, headers: dict[str, str], taken: int) -> bool:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(GUARD_S)
        try:
            connection.sock.connect(str(self._path))
            connection.request("POST", path, body, headers)
            return connection.getresponse().status == taken
        except (OSError, http.client.HTTPException):  # nobody is there, or was killed with the answer still to come
            return False
        finally:
            connection.close()


def _has_landed(one: Gateway, first: int) -> bool:
    """Say whether something of the run of the program that began with a number is in the vault."""
    return any(each[0] == "tide/level" and each[3] >= first for each in landed(one))


def test_received_readings_are_in_the_vault_once(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    program, place = tmp_path / "counts.py", tmp_path / "place"
    program.write_text(_COUNTS)
    place.write_text("0")
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    for key, value in (
        ("telemetry.batch_seconds", "0.2"),
        ("vault.segment_seconds", "0.2"),
        ("api.socket", "api.sock"),
    ):
        one.ok("config", "set", key, value)
    add_sensor(
        one,
        'name = "tide"',
        'kind = "exec"',
        f"command = {json.dumps([sys.executable, '-I', str(program), str(place)])}",
    )
    starts = tmp_path / "place.starts"
    starts.touch()

    def firsts() -> list[int]:
        """Return where each run began, as it says: the one before it outlives its agent until it prints again."""
        return [int(each) for each in starts.read_text().splitlines()]

    poster = _Poster(one.state / "api.sock")
    for kill in range(_KILLS + 1):
        one.start("collect", "--no-sensors")
        wait_until(lambda runs=kill + 1: len(firsts()) == runs, "the program begins")
        least = _POSTS * (kill + 1) // (_KILLS + 1)
        wait_until(lambda least=least: poster.taken >= least, "some were taken")
        wait_until(lambda: int(place.read_text()) > firsts()[-1] + 50, "the program prints")
        wait_until(lambda: _has_landed(one, firsts()[-1]), "what it prints lands")
        if kill < _KILLS:
            one.kill()
    wait_until(lambda: sum(name == "flow" for name, *_ in landed(one)) == _POSTS, "all have landed")
    one.end()
    one.ok("vault", "push")
    found = landed(one)
    assert {each: count for each, count in found.items() if count > 1} == {}
    values = {name: sorted(each[3] for each in found if each[0] == name) for name, *_ in found}
    assert values["tank/level"] == values["flow"] == list(range(_POSTS))
    tide = values["tide/level"]
    assert max(tide) < int(place.read_text())
    for first, end in zip(firsts(), [*firsts()[1:], int(place.read_text())], strict=True):
        of_a_run = [each for each in tide if first <= each < end]  # and of a run the end may be missing, never a middle
        assert of_a_run == list(range(first, first + len(of_a_run)))
        assert of_a_run


def test_home_assistant_learns_all_series_despite_kills_under_stable_ids(tmp_path: Path) -> None:
    house = HouseBroker(tmp_path)
    try:
        fleet = CollectedFleet(tmp_path, _DEVICES, rounds=4)
        hub = fleet.hub
        path = hub.state / "config.toml"
        path.write_text(
            f'{path.read_text()}\n[[door]]\nname = "home"\nkind = "home-assistant"\nurl = "{house.url}"\n'
            f'password_file = "{house.password_file}"\nstart = "all"\ninterval_seconds = 0.1\n'
        )
        seen = house.client()
        seen.subscribe("homeassistant/#")
        configured: dict[str, set[str]] = {}
        for kill in range(_KILLS + 1):
            for place in range(_DEVICES):
                fleet.land_one(place, "level", float(kill))
            hub.start("door", "run")
            topic, config = seen.next_message()
            if kill < _KILLS:
                hub.kill()
            while topic:
                configured.setdefault(topic, set()).add(json.loads(config)["unique_id"])
                topic, config = ("", b"") if seen.messages.empty() else seen.next_message()
        sent = (_KILLS + 1 + 4) * _DEVICES
        wait_until(lambda: hub.json("door", "status")[0]["messages"] == sent, "all have gone")
        hub.kill()
        seen.close()
        retained = house.retained()
    finally:
        house.broker.stop()
    configs = {topic: json.loads(text) for topic, text in retained.items() if topic.endswith("/config")}
    assert len({each["unique_id"] for each in configs.values()}) == len(configs) == 5 * _DEVICES
    assert configured.items() <= {topic: {each["unique_id"]} for topic, each in configs.items()}.items()
    levels = [json.loads(retained[each["state_topic"]]) for each in configs.values() if each["name"] == "level"]
    assert {each["value"] for each in levels} == {float(_KILLS)}
    assert all(each["state_topic"] in retained for each in configs.values())
