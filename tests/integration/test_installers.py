"""What is installed on trial stays where it proves good, and else falls back by itself, through a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_PUMP = r"""#!/bin/sh
# Installs the pump's program; a file wait-STEP has that step wait.
cd {state} || exit 1
echo "$1" >> steps
end_agent() {{ kill "$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/$PPID/stat)"; sleep 600; }}
case "$1" in
install)
    test -e kept || {{ cp {target} kept.new && mv kept.new kept; }}
    cat > next && while test -e wait-install; do sleep 0.1; done && mv next {target}
    {after} ;;
confirm)
    while test -e wait-confirm; do sleep 0.1; done
    grep -q good {target} || exit 1
    rm -f kept ;;
rollback)
    test -e kept || exit 0
    cp kept next && mv next {target}
    while test -e wait-rollback; do sleep 0.1; done
    rm kept
    {after} ;;
version) head -n 1 {target} ;;
esac
"""
_DEFINITION = """
summary = "install the pump's program"
argv = [{argv}]
ends = "{ends}"
seconds = 60
[installer]
trial_seconds = {trial}
"""
_FAST = ("--soak", "0s", "--patience", "3m")


class Fleet:
    """An operator's device, and some that let it install things."""

    def __init__(self, new_gateway: Callable[[str], Gateway], folder: Path, names: tuple[str, ...]) -> None:
        self._folder = folder
        self.hub, *self.sheds = [new_gateway(name) for name in ("hub", *names)]
        for each in (self.hub, *self.sheds):
            each.ok("config", "set", "operations.operators", self.hub.json("key", "show")["signing_key"])
        for each in self.sheds:
            each.ok("config", "set", "operations.commands", "pump")
        self.hub.ok("group", "create")
        self.hub.start("run", "--no-sensors")
        for each in self.sheds:
            self.hub.invite(each)

    def define(self, shed: Gateway, *argv: str, ends: str = "", trial: int = 300) -> None:
        action = shed.state / "operations.d" / "pump.toml"
        action.parent.mkdir(mode=0o700, exist_ok=True)
        action.write_text(_DEFINITION.format(argv=", ".join(f'"{word}"' for word in argv), ends=ends, trial=trial))
        action.chmod(0o600)

    def define_pump(self, shed: Gateway, target: str = "pump", after: str = "", **how: Any) -> None:
        """Have a device install the pump's program by one of its owner's own."""
        script = shed.state / "pump-installer"
        script.write_text(_PUMP.format(state=shed.state, target=target, after=after))
        script.chmod(0o700)
        (shed.state / "pump").write_text("good 1\n")
        self.define(shed, str(script), **how)

    def start(self) -> None:
        for each in self.sheds:
            each.start("run", "--no-sensors")
        log = self.hub.ok
        wait_until(lambda: log("history", "log", "--json").count("obeying") == len(self.sheds), "all obey")

    def file(self, content: str) -> str:
        path = self._folder / "content"
        path.write_text(content)
        return str(path)

    def release(self, content: str, *words: str, code: int) -> dict[str, Any]:
        """Release something, which is to end with a code; return the release that it has printed last."""
        done = self.hub.covey("release", "create", self.file(content), "--installer", "pump", *_FAST, *words)
        assert done.returncode == code, (done.stdout, done.stderr)
        found = self.hub.json("release", "list")[-1]
        assert isinstance(found, dict)
        return found

    def order(self, content: str) -> str:
        """Have all install something, and return the order's id."""
        given = self.hub.json("put", self.file(content), "--for", "label:shed", "--action", "pump")
        return str(given["order"]["id"])

    def outcome(self, order: str, *, restart: bool = False) -> tuple[str, str, str]:
        """Wait for what becomes of an order on the first device; return (outcome, code, why)."""
        shed, found = self.sheds[0], {}

        def is_over() -> bool:
            nonlocal found
            if restart and shed.ended_by_itself:  # as a service manager does
                shed.end()
                shed.start("run", "--no-sensors")
            [found] = self.hub.json("orders", order)["devices"]
            return found["outcome"] not in {"waiting", "asleep"}

        wait_until(is_over, "it has reported", idle_s=60)
        return found["outcome"], found["code"], found["why"]


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
    assert set(_steps(shed)) == {"install", "rollback", "version"}


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
        wait_until(lambda: _steps(shed) == ["install"], "it is being installed")
        fleet.hub.end()  # so nobody acknowledges anything
        (shed.state / "wait-install").unlink()
        wait_until(lambda: (shed.state / "pump").read_text() == "good 2\n", "it is installed")
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
