"""`covey door`: readings go on to a real web server from a real vault, through kills, as a person sees it."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.collected_fleet import CollectedFleet
from tests.house_api import TOKEN, house_api
from tests.house_broker import HouseBroker
from tests.receiver import Receiver, receiver
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


def _fleet(folder: Path, web: Receiver) -> CollectedFleet:
    fleet = CollectedFleet(folder, 30, rounds=20)
    path = fleet.hub.state / "config.toml"
    path.write_text(
        f'{path.read_text()}\n[[door]]\nname = "cloud"\nkind = "webhook"\nurl = "{web.url}"\n'
        'start = "all"\ninterval_seconds = 0.1\ntoken_file = "cloud.token"\n'
    )
    token = fleet.hub.state / "cloud.token"
    token.write_text("tk_s3cret\n")
    token.chmod(0o600)
    return fleet


def test_everything_comes_at_least_once_through_kills_and_once_by_its_id(tmp_path: Path) -> None:
    with receiver() as web:
        fleet = _fleet(tmp_path, web)
        hub = fleet.hub
        assert "no process forwards readings" in hub.covey("check", "--offline").stdout
        web.answers = [0, 503, 0, 0, 200, 0]  # what hangs up has taken it
        for seen in (1, 2, 4):
            hub.start("door", "run")
            wait_until(lambda seen=seen: len(web.posts) > seen, "a batch comes")
            hub.kill()
        hub.start("door", "run")
        try:
            wait_until(lambda: len(web.messages()) == 600, "all have come")
            wait_until(lambda: hub.json("door", "status")[0]["messages"] == 600, "and that is noted")
            assert "already forwards readings" in hub.fails("door", "run", code=1)
            (status,) = hub.json("door", "status")
            assert (status["readings"], status["behind"], status["gaps"]) == (2_400, 0, 0)
            assert "1 door forwarding: cloud" in hub.covey("check", "--offline").stdout
        finally:
            hub.kill()
        assert any(each["label"] == "field-00003" for each in web.messages())
        assert "tk_s3cret" not in hub.log.read_text() + hub.ok("door", "status") + hub.ok("door", "list")


def test_every_point_comes_by_otlp_through_kills(tmp_path: Path) -> None:
    with receiver() as web:
        hub = CollectedFleet(tmp_path, 30, rounds=20).hub
        path = hub.state / "config.toml"
        path.write_text(
            f'{path.read_text()}\n[[door]]\nname = "metrics"\nkind = "otlp"\nurl = "{web.url}"\n'
            'start = "all"\ninterval_seconds = 0.1\n'
        )
        web.answers = [0, 503, 0, 0, 200, 0]  # what hangs up has taken it
        for seen in (1, 2, 4):
            hub.start("door", "run")
            wait_until(lambda seen=seen: len(web.posts) > seen, "a batch comes")
            hub.kill()
        hub.start("door", "run")
        try:
            wait_until(lambda: hub.json("door", "status")[0]["messages"] == 600, "all have gone")
        finally:
            hub.kill()
        points = [each for post in web.posts for each in _points(gzip.decompress(post.body))]
    assert len(points) > len({*points}) == 2_400


def _points(body: bytes) -> Iterator[tuple[str, str, int]]:
    """Yield what tells points apart: device, series, time."""
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        attributes = resource.resource.attributes
        (device,) = (each.value.string_value for each in attributes if each.key == "covey.device.key")
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.gauge.data_points:
                    yield device, metric.name, point.time_unix_nano


def test_a_door_that_is_down_holds_up_no_other(tmp_path: Path) -> None:
    with receiver() as web, receiver() as metrics:
        fleet = _fleet(tmp_path, web)
        hub = fleet.hub
        path = hub.state / "config.toml"
        path.write_text(
            f'{path.read_text()}\n[[door]]\nname = "down"\nkind = "home-assistant"\n'
            'url = "mqtt://127.0.0.1:1"\nstart = "all"\n'
            f'[[door]]\nname = "metrics"\nkind = "otlp"\nurl = "{metrics.url}"\nstart = "all"\n'
        )
        hub.start("door", "run")
        try:
            wait_until(lambda: len(web.messages()) == 600, "the webhook has everything")
            wait_until(lambda: hub.json("door", "status")[2]["messages"] == 600, "so has the receiver of metrics")
            wait_until(lambda: hub.json("door", "status")[1]["attempts"], "the third one is waited for")
            assert "down has forwarded nothing" in hub.covey("check", "--offline").stdout
            assert "2 doors forwarding: cloud, metrics" in hub.covey("check", "--offline").stdout
        finally:
            hub.kill()


def test_late_readings_wait_without_holding_up_current_ones_and_are_imported(tmp_path: Path) -> None:
    house = HouseBroker(tmp_path)
    try:
        with house_api() as (api, url):
            hub = CollectedFleet(tmp_path, 3, rounds=8).hub
            path = hub.state / "config.toml"
            path.write_text(
                f'{path.read_text()}\n[[door]]\nname = "home"\nkind = "home-assistant"\nurl = "{house.url}"\n'
                f'password_file = "{house.password_file}"\nstart = "all"\ninterval_seconds = 0.1\n'
                f'history_url = "{url}"\ntoken_file = "home.token"\n'
            )
            token = hub.state / "home.token"
            token.touch(0o600)
            token.write_text("wrong")
            (status,) = hub.json("door", "status")
            assert (status["begun_at_us"], status["history"]) == (None, None)
            assert "home: 127.0.0.1 refuses the token" in hub.covey("door", "test").stdout
            hub.start("door", "run")
            wait_until(lambda: hub.json("door", "status")[0]["messages"] == 24, "all readings are sent")
            wait_until(lambda: hub.json("door", "status")[0]["history"]["attempts"] > 1, "the import is refused")
            (status,) = hub.json("door", "status")
            assert (status["error"], status["history"]["hours"]) == ("", 0)
            assert status["history"]["waiting"] > 0
            assert "refuses the token" in hub.ok("door", "status")
            assert (
                "home imports no late readings: 127.0.0.1 refuses the token" in hub.covey("check", "--offline").stdout
            )
            hub.kill()
            configs = [json.loads(text) for topic, text in house.retained().items() if topic.endswith("/config")]
            api.entities = {each["unique_id"]: f"sensor.s{place}" for place, each in enumerate(configs)}
            token.write_text(TOKEN)
            assert hub.ok("door", "test") == "home: accepted\n"
            hub.start("door", "run")
            ended = (time.time_ns() // 1_000_000_000 - 900) // 3_600

            def imported() -> int:
                return int(hub.json("door", "status")[0]["history"]["hours"])

            wait_until(lambda: imported() and not hub.json("door", "status")[0]["history"]["attempts"], "it imports")
            hub.kill()
            assert len(api.rows) == imported()
            assert {hour for _, hour in api.rows} <= {ended - 3, ended - 2, ended - 1, ended}
            assert f"home: late readings: {imported()} hours imported, last" in hub.ok("door", "status")
            assert TOKEN not in hub.log.read_text() + hub.ok("door", "status") + hub.ok("door", "list")
    finally:
        house.broker.stop()


def test_a_person_tries_a_door_and_is_helped(tmp_path: Path) -> None:
    with receiver() as web:
        fleet = _fleet(tmp_path, web)
        hub = fleet.hub
        assert hub.ok("door", "test") == "cloud: accepted\n"
        ((message,),) = (post.document["messages"] for post in web.posts)
        assert (message["label"], message["readings"][0]["name"]) == ("hub", "covey-test")
        web.answers = [500]
        failed = hub.covey("door", "test", "cloud", "--json")
        assert (failed.returncode, json.loads(failed.stdout)) == (
            1,
            [{"door": "cloud", "error": "127.0.0.1 answered with HTTP status 500"}],
        )
        assert "no door clod" in hub.fails("door", "test", "clod", code=2)
        assert hub.json("door") == [{"name": "cloud", "kind": "webhook", "to": f"http://127.0.0.1:{web.port}"}]
        assert "not running: covey door run" in hub.ok("door", "status")


def test_a_device_without_doors_or_vault_is_helped(tmp_path: Path) -> None:
    from tests.integration.gateway import Gateway

    hub = Gateway(tmp_path, "hub")
    assert hub.ok("door") == "no doors are configured\n"
    assert "has no [[door]]" in hub.fails("door", "run", code=78)
    path = hub.state / "config.toml"
    path.write_text(f'{path.read_text()}\n[[door]]\nname = "c"\nkind = "webhook"\nurl = "http://127.0.0.1:1/"\n')
    assert "has no vault" in hub.fails("door", "run", code=78)
