"""The second implementation of a device is the collector of a real agent; the product reads its vault."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.second import Second
from tests.outside.vault import check_of
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def test_a_thousand_readings_land_once_each_though_it_is_killed(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    gateway = new_gateway("gateway")
    second.start("--create", "--capability", "collector", "--commands")
    gateway.ok("config", "set", "telemetry.batch_readings", "10")
    gateway.ok("join", "-", feed=second.invite())
    gateway.start("run", "--no-sensors")
    lines = [json.dumps({"n": "count", "v": number, "t": 1_790_000_000 + number}) for number in range(1, 1_001)]
    for part in range(4):
        landings = len(second.said("landed"))
        gateway.ok("publish", feed="\n".join(lines[250 * part : 250 * part + 250]) + "\n")
        wait_until(lambda landings=landings: len(second.said("landed")) > landings, "something more has landed")
        second.end()
        second.start("--commands")
    wait_until(lambda: len(_counted(second)) == 1_000, "all have landed")
    assert sorted(_counted(second)) == list(range(1, 1_001))
    wait_until(lambda: gateway.queued() == 0, "all are acknowledged")


def _counted(second: Second) -> list[int]:
    return [value for (name, _, _, value), times in landed(second).items() if name == "count" for _ in range(times)]


def test_a_removal_has_it_seal_with_a_new_key_and_an_auditor_opens_all(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    gateway, other, auditor = (new_gateway(name) for name in ("gateway", "other", "auditor"))
    second.start("--create", "--capability", "collector", "--commands")
    for each in (gateway, other):
        each.ok("join", "-", feed=second.invite())
        each.start("run", "--no-sensors")
        each.ok("publish", "--wait", "300", feed='{"n":"count","v":1}\n')
    assert len(_keys(second)) == 1
    second.do(f"remove {other.author[:8]}")
    wait_until(lambda: "this device was removed" in other.log.read_text(), "the removed one knows")
    gateway.ok("publish", "--wait", "300", feed='{"n":"count","v":2}\n')
    assert len(_keys(second)) == 2
    copy = {"vault_id": json.loads((second.state / "vault.key").read_text())["vault_id"], "keys": _keys(second)}
    (auditor.state / "vault.key").write_text(json.dumps({**copy, "check": check_of(copy).hex()}))
    (auditor.state / "vault.key").chmod(0o600)
    vault = ("--vault", str(second.state / "vault"))
    assert auditor.json("vault", "verify", *vault) == {"findings": []}
    values = [json.loads(line)["value"] for line in auditor.ok("vault", "readings", *vault, "--json").splitlines()]
    assert sorted(values) == [1, 1, 2]


def _keys(second: Second) -> list[dict[str, str]]:
    keys: list[dict[str, str]] = json.loads((second.state / "vault.key").read_text())["keys"]
    return keys
