"""What is installed on trial stays where it proves good, and else falls back by itself, through a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.integration.installing import Fleet
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def _steps(shed: Gateway) -> list[str]:
    log = shed.state / "steps"
    return log.read_text().split() if log.exists() else []


def test_a_good_release_is_confirmed_and_a_bad_one_falls_back_and_ends_with_its_first_wave(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("one", "two", "three"))
    for each in fleet.sheds:
        check = each.state / "check"
        check.write_text('#!/bin/sh\ngrep -q good "$1"\n')
        check.chmod(0o700)
        target = each.state / "model.bin"
        fleet.define(each, "covey", "installer", "file", f"--to={target}", f"--check={check}")
    fleet.start()
    good = fleet.release("good 1", "--waves", "1,100%", code=0)
    assert (good["state"], good["waves_given"], len(good["devices"])) == ("finished", 2, 3)
    assert {each["why"][:10] for each in good["devices"]} == {"on sha256 "}
    assert [(each.state / "model.bin").read_text() for each in fleet.sheds] == ["good 1"] * 3
    bad = fleet.release("bad 2", "--waves", "1,100%", code=1)
    assert (bad["state"], bad["waves_given"], bad["others"]) == ("stopped", 1, 2)
    [failed] = bad["devices"]
    version = good["devices"][0]["why"].removeprefix("on ")
    assert (failed["code"], failed["why"]) == (
        "action_rolled_back",
        f"rolled back to {version}: confirm ended with 1",
    )
    assert [(each.state / "model.bin").read_text() for each in fleet.sheds] == ["good 1"] * 3
    for each in fleet.sheds:
        assert list((each.state / "installing").iterdir()) == []


def test_an_update_that_breaks_the_connection_falls_back_by_itself(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    """An installer that kills the network: what it leaves has no relay, and nobody can tell the device to go back."""
    fleet = Fleet(new_gateway, tmp_path, ("shed",))
    [shed] = fleet.sheds
    fleet.define_pump(shed, target="config.toml", after="end_agent", ends="agent", trial=8)
    config = shed.state / "config.toml"
    before = config.read_text()
    fleet.start()
    [url] = [line for line in before.splitlines() if line.startswith("url = ")]
    order = fleet.order("# good, it says\n" + before.replace(url, 'url = "mqtt://127.0.0.1:9"'))
    outcome, code, why = fleet.outcome(order, restart=True)
    assert (outcome, code) == ("failed", "action_rolled_back"), why
    assert "no member acknowledged anything within 8 s" in why
    assert config.read_text() == before
    assert "confirm" not in _steps(shed)


def test_a_device_waits_for_the_moment_that_its_owner_chose(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("shed",))
    [shed] = fleet.sheds
    fleet.define_pump(shed)
    busy, action = shed.state / "busy", shed.state / "operations.d" / "pump.toml"
    check = shed.state / "is-idle"
    check.write_text(f"#!/bin/sh\ntest ! -e {busy} || exit 75\n")
    check.chmod(0o700)
    action.write_text(f'{action.read_text()}when = ["covey", "installer", "when", "--mains", "--check={check}"]\n')
    busy.touch()
    fleet.start()
    order = fleet.order("good 2\n")
    waits = f"pump waits for {check} before it installs"
    wait_until(lambda: waits in shed.covey("check", "--offline").stdout, "it waits")
    assert "install" not in _steps(shed)
    shed.kill()
    busy.unlink()
    shed.start("run", "--no-sensors")
    outcome, _, why = fleet.outcome(order)
    assert (outcome, why) == ("done", "on good 2")


@pytest.mark.parametrize("step", ["install", "trial", "confirm", "rollback"])
def test_an_agent_that_is_killed_at_a_step_ends_on_the_old_or_on_the_new_and_says_on_which(
    new_gateway: Callable[[str], Gateway], tmp_path: Path, step: str
) -> None:
    fleet = Fleet(new_gateway, tmp_path, ("shed",))
    [shed] = fleet.sheds
    fleet.define_pump(shed)
    fleet.start()
    waits = shed.state / f"wait-{step}"
    waits.touch()
    order = fleet.order("bad 2\n" if step == "rollback" else "good 2\n")
    if step == "trial":
        (shed.state / "wait-install").touch()
        wait_until(lambda: "install" in _steps(shed), "it is being installed")
        fleet.hub.end()  # so nobody acknowledges anything
        (shed.state / "wait-install").unlink()
        wait_until(lambda: "still on trial: trial" in shed.covey("check", "--offline").stdout, "it is on trial")
        assert (shed.state / "pump").read_text() == "good 2\n"
        wait_until(lambda: shed.queued() > 0, "it asks for a sign")
    else:
        wait_until(lambda: step in _steps(shed), f"it has begun to {step}")
    shed.kill()
    waits.unlink()
    if step == "trial":
        fleet.hub.start("run", "--no-sensors")
    shed.start("run", "--no-sensors")
    outcome, code, why = fleet.outcome(order)
    stays = step in {"trial", "confirm"}
    version = "good 2" if stays else "good 1"
    assert (outcome, code) == (("done", "") if stays else ("failed", "action_rolled_back")), why
    assert why.startswith(f"on {version}" if stays else f"rolled back to {version}: ")
    assert (shed.state / "pump").read_text() == f"{version}\n"
    assert not (shed.state / "kept").exists()
