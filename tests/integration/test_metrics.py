"""`covey metrics`, read by Prometheus' own parsers, and the dashboard that uses it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

DASHBOARD = Path(__file__).parents[2] / "docs/reference/grafana.json"


@pytest.fixture
def alone(tmp_path: Path) -> Gateway:
    """A gateway that has no broker."""
    return Gateway(tmp_path, "alone")


def _values(text: str) -> dict[str, float]:
    """Return every sample, a reason or group in its name."""
    return {
        "/".join(
            [sample.name, *(value for key, value in sample.labels.items() if key in {"reason", "group", "class"})]
        ): sample.value
        for family in read_openmetrics(text)
        for sample in family.samples
    }


def test_an_idle_device(alone: Gateway) -> None:
    values = _values(alone.ok("metrics"))
    assert values["covey_build_info"] == 1
    assert values["covey_agent_running"] == 0
    assert {name: value for name, value in values.items() if name.startswith("covey_outbox_bytes/")} == {
        "covey_outbox_bytes/alarm": 0,
        "covey_outbox_bytes/control": 0,
        "covey_outbox_bytes/data": 0,
        "covey_outbox_bytes/telemetry": 0,
        "covey_outbox_bytes/history": 0,
    }
    assert values["covey_dropped_total/signature"] == 0
    assert values["covey_dropped_total/outbox_full"] == 0
    assert values["covey_quarantined_total/version_gap"] == 0


@pytest.mark.broker
def test_numbers_move(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    one.start("collect", "--no-sensors")
    one.invite(two)
    two.start("run", "--no-sensors")
    two.ok("publish", feed='{"n":"t","v":1}\n' * 3)
    wait_until(lambda: _values(one.ok("metrics"))["covey_landed_messages_total"] >= 1, "it has landed")
    wait_until(lambda: two.queued() == 0, "it is acknowledged")
    values = _values(two.ok("metrics"))
    assert values["covey_relay_connected"] == values["covey_agent_running"] == 1
    assert values["covey_published_readings_total"] == 3
    assert values["covey_delivered_total"] >= 1
    (version,) = [value for name, value in values.items() if name.startswith("covey_manifest_version/")]
    assert version == 2

    one.end()
    broker.kill()
    two.ok("publish", feed='{"n":"t","v":1}\n')
    wait_until(lambda: _values(two.ok("metrics"))["covey_offline_seconds_total"] >= 1, "time offline counts")
    values = _values(two.ok("metrics"))
    assert values["covey_relay_connected"] == 0
    assert values["covey_outbox_messages"] == 1
    assert values["covey_outbox_bytes/telemetry"] > 50
    assert values["covey_outbox_bytes/data"] == 0
    assert values["covey_outbox_oldest_age_seconds"] > 0
    before = values["covey_offline_seconds_total"]
    broker.start()
    wait_until(lambda: _values(two.ok("metrics"))["covey_relay_connected"] == 1, "the relay is back")
    assert _values(two.ok("metrics"))["covey_offline_seconds_total"] >= before - 1


def test_a_textfile_is_replaced_whole(alone: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "covey.prom"
    path.write_text("old")
    assert alone.ok("metrics", "--textfile", str(path)) == ""
    assert path.stat().st_mode & 0o777 == 0o644
    families = {family.name: family for family in read_prometheus(path.read_text())}
    assert families["covey_delivered"].type == "counter"
    assert families["covey_outbox_bytes"].type == "gauge"
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".tmp")] == []
    assert "must end in .prom" in alone.fails("metrics", "--textfile", str(tmp_path / "x"), code=2)
    assert "cannot write" in alone.fails("metrics", "--textfile", "/nowhere/at/all.prom", code=1)


def test_the_dashboard_shows_what_there_is(alone: Gateway) -> None:
    text = alone.ok("metrics")
    names = {name.partition("/")[0] for name in _values(text)} | {each.name for each in read_openmetrics(text)}
    shown = set(re.findall(r"covey_\w+", json.dumps(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"])))
    assert shown <= names
    assert len(shown) > 12


def test_metrics_count_dropped_messages_by_reason(alone: Gateway) -> None:
    alone.ok("group", "create", "--capability", "collector")
    alone.ok("config", "set", "outbox.maximum_bytes", "1048576")
    chance = random.Random(7)
    lines = "".join(json.dumps({"n": "n", "vs": chance.randbytes(450).hex()}) + "\n" for _ in range(3_000))
    alone.ok("publish", "--batch", "10", feed=lines)
    values = _values(alone.ok("metrics"))
    assert values["covey_dropped_total/outbox_full"] > 0
    assert 0 < values["covey_outbox_bytes/telemetry"] < 2**20
