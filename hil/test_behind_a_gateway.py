"""What comes down to a MicroPython board by real agents: a release of firmware, and what a mailbox keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey_boards.flash import firmware
from covey_boards.images import write_image
from covey_boards.shared.messages import SOFTWARE
from hil.boards import runtimes
from hil.boards.emulated_board import EmulatedBoard
from hil.conftest import missing_device
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

QUICK = {
    "interval_seconds": 0.2,
    "batch_seconds": 0.5,
    "sensors": [["counter", {}]],
    "trial_seconds": 60,
    "rest_seconds": 1,
}
HEAP_KIB = 256  # sources: compiled on the board, as flash does
_DEFINITION = """
summary = "the firmware of the boards"
argv = ["covey", "installer", "board", "--of={state}"]
seconds = 300
memory_mib = 512
[installer]
trial_seconds = 300
"""
_FAST = ("--installer", "update-boards", "--soak", "0s", "--patience", "5m")


class Site:
    """A collector that is the operator, a gateway that obeys it, and a board behind that."""

    def __init__(self, folder: Path, broker: Broker, board: EmulatedBoard) -> None:
        self.board = board
        self._folder, self.broker = folder, broker
        self.hub, self.gateway = (Gateway(folder, name, broker) for name in ("hub", "gateway"))
        operator = self.hub.json("key", "show")["signing_key"]
        for each in (self.hub, self.gateway):
            each.ok("config", "set", "operations.operators", operator)
        action = self.gateway.state / "operations.d" / "update-boards.toml"
        action.parent.mkdir(mode=0o700)
        action.write_text(_DEFINITION.format(state=self.gateway.state))
        action.chmod(0o600)
        self.gateway.ok("config", "set", "operations.commands", "update-boards")
        self.gateway.ok("config", "set", "bridge.ports", str(board.port))
        self.hub.ok("group", "create", "--capability", "collector")
        self.hub.start("collect", "--no-sensors")
        self.hub.invite(self.gateway)
        self.gateway.start("run", "--no-sensors")
        board.start()
        wait_until(lambda: any(each["up"] for each in self.gateway.json("mcu", "stats")), "the agent knows the board")
        self.board_key = self.gateway.json("mcu", "enrol", "--yes", "--label", "orchard")["signing_public"]
        wait_until(lambda: self.hub.counters().get("landed_messages", 0) > 1, "the board's messages land")

    def release(self, version: str, changed: dict[str, bytes]) -> str:
        """Release a firmware, switch the board on whenever it restarts, and return what the gateway says at the end."""
        named = firmware()["messages.py"].replace(SOFTWARE.encode(), version.encode())
        path = self._folder / "board.image"
        identity = StateFolder.at(self.hub.state).identity()
        path.write_bytes(write_image({**firmware(), "messages.py": named, **changed}, "", 0, identity))
        words = ("--name", version, "--for", "label:gateway", *_FAST)
        gives = self.hub.start_beside("release", "create", str(path), *words)

        def is_over() -> bool:
            if not self.board.alive:  # where a board restarts, this process ends
                self.board.kill()
                self.board.start()
            return gives.poll() is not None

        wait_until(is_over, "the gateway has it, or says why not", idle_s=240)
        found = self.hub.json("release", "list")[-1]
        return f"{found['state']}: {found['devices'][0]['why']}"

    @property
    def software(self) -> str:
        """What the board says that it runs."""
        return str(self.gateway.json("mcu", "stats")[0]["software"])


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    try:
        board = EmulatedBoard(tmp_path / "board", settings=QUICK, heap_kib=HEAP_KIB, baud=None)
    except runtimes.MissingError as error:
        missing_device(request.config, "unix32", error)
        raise AssertionError from error
    with Broker(tmp_path / "broker") as broker:
        made = None
        try:
            made = Site(tmp_path, broker, board)
            yield made
        finally:
            board.close()
            for each in (made.gateway, made.hub) if made else ():
                each.kill()


def test_a_firmware_comes_by_release_and_one_that_does_not_start_goes(site: Site) -> None:
    """A release ends well where the board runs it; else the board goes back by itself, then the gateway does."""
    said = site.release("covey-board 9.0.0", {})
    assert said.startswith("finished: "), said
    assert site.software == "covey-board 9.0.0"
    said = site.release("covey-board 9.9.9", {"core.py": b"raise ValueError('a bad release')\n"})
    assert said.startswith("stopped: "), said
    assert "rolled back" in said
    wait_until(lambda: site.software == "covey-board 9.0.0", "the version of before runs")


def test_a_mailbox_keeps_a_collectors_message_for_a_board(site: Site, tmp_path: Path) -> None:
    """Collector and gateway are never there together; a mailbox keeps it, in the gateway's inbox (ADR 76)."""
    post = Gateway(tmp_path, "post", site.broker)
    try:
        post.ok("config", "set", "mailbox.serve", "true")
        site.hub.invite(post, "--capability", "mailbox")
        post.start("run", "--no-sensors")
        all_of_them = (site.hub, site.gateway, post)
        wait_until(lambda: all(len(each.json("group", "show")["members"]) == 4 for each in all_of_them), "all know all")
        site.gateway.kill()
        for interval in (0.7, 0.3):
            words = json.dumps({"interval_seconds": interval})
            site.hub.ok("message", "send", "--text", words, "--to", site.board_key, "--hand-over", "--wait", "60")
        site.hub.kill()
        site.gateway.start("run", "--no-sensors")
        wait_until(lambda: b'"interval_seconds": 0.3' in site.board.file("covey.json"), "the board has both, in order")
        site.hub.start("collect", "--no-sensors")
        wait_until(lambda: not site.hub.queued(), "and the collector hears of it")
    finally:
        post.kill()
