"""Orders to boards: from `covey order run` through the gateway's history to the firmware, and its signed word back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from covey.app.boards import orders
from covey.app.boards.orders import BoardOrders, PinnedBoardOrders, board_orders
from covey.app.device.device import Device, find_state, open_device
from covey.app.history import forgetting
from covey.core.actions.results import OrderResult
from covey.core.history.orders import Approval
from covey.core.ids import OperationId, key_text
from covey.core.now import Now
from covey.ports import AttachedBoard
from covey_boards.bridge import Bridge
from covey_boards.device import core, slot_state, slots
from covey_boards.device.identity import Identity
from covey_boards.device.storage import Files
from covey_boards.flash import firmware as firmware_files
from covey_boards.shared import line_orders, messages
from covey_boards.shared import tweetnacl as nacl
from covey_boards.updates import FIRMWARE_CONDITION, BoardUpdates
from hil.on_board.firmware_simulation import Sensor
from tests.board import Board, MemoryLine
from tests.command import Here, covey
from tests.fleet import identity
from tests.unit.cli.commands.test_fleet_plans import _said as said

WALL_US = 1_780_000_000_000_000


class FirmwareOnLine(Board):
    """The firmware itself at its end of a line."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        folder.mkdir()
        self.folder, self.files = folder, Files(f"{folder}/")
        self.boot()

    def boot(self) -> None:
        """Cut the power: only files stay."""
        keys = self.identity
        self.slot = slots.choose(self.files)
        firmware = Identity(keys.signing_secret[:32], keys.noise_secret)
        self.core = core.Core(firmware, self.files, [Sensor()], core.Settings(samples=0))
        self._booted_ms = 0

    def flash(self, *without: str) -> None:
        """Have it hold what `covey mcu flash` writes, without some modules: those alone have to come over the line."""
        for name, content in firmware_files().items():
            if name not in without:
                (self.folder / name).write_bytes(content)

    def came(self) -> int:
        """Return how many bytes lie in its first slot."""
        return sum(path.stat().st_size for path in self.folder.glob("slot_a/*"))

    def turn(self, received: bytes, now_ms: int) -> bytes:
        self._booted_ms = self._booted_ms or now_ms
        if received:
            self.core.feed(received, 1_000 * (now_ms - self._booted_ms))
        return bytes(self.core.tick(1_000 * (now_ms - self._booted_ms)))


class Site(Here):
    """An operator's own gateway, with a board on a port of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "kim")
        self.ok("group", "create", "--capability", "collector")
        self.ok("config", "set", "operations.operators", self.json("key", "show")["signing_key"])
        self.board = FirmwareOnLine("orchard", folder / "flash")
        keys = [key_text("sign", self.board.key), key_text("noise", self.board.keys.noise_public)]
        self.ok("group", "add", *keys, "--label", "orchard", "--capability", "board")
        self.lines: list[str] = []
        self.line = MemoryLine(self.board)  # type: ignore[arg-type]
        self._now_us = 0
        self.device: Device
        self.live: Callable[[float], None]

    @contextmanager
    def running(self) -> Iterator[Callable[[float], None]]:
        """Give what lets the gateway's bridge and the board live for so many seconds."""
        with open_device(find_state(str(self.state))) as device:
            folder = find_state(str(self.state))

            self.device = device

            def report(*line: str) -> None:
                self.lines.append(" ".join(line))

            handed = BoardOrders(device.store, PinnedBoardOrders(device), report)
            updates = BoardUpdates(folder.board_firmware, device.store, report)
            bridge = Bridge([self.line], device.store, lambda: True, report, handed, updates)

            def live(seconds: float) -> None:
                for _ in range(int(20 * seconds)):
                    self.line.pass_bytes(50)
                    self._now_us += 50_000
                    if device.store.changed_elsewhere():
                        device.node.refresh()
                    bridge.turn(device.node, Now(self._now_us, WALL_US + self._now_us))

            self.live = live
            yield live

    def order(self, *words: str) -> str:
        order: str = self.json("order", "run", *words)["id"]
        return order

    def said(self, order: str) -> OrderResult:
        """Return what the board, or the gateway in its stead, has said of an order."""
        [group] = self.device.node.groups.joined()
        [kept] = self.device.store.order_results.of_order(group.group_id, OperationId(bytes.fromhex(order)))
        return kept.result

    def delete_what_is_over(self) -> None:
        self.ok("history", "post", "the last of its log stays")
        self.ok("history", "checkpoint")
        self.ok("history", "delete", "--keep", "0")

    def outcome(self, order: str) -> dict[str, Any]:
        [device] = self.json("order", "show", order)["devices"]
        found: dict[str, Any] = device
        return found


@pytest.fixture
def opened() -> Iterator[list[str]]:
    module = ModuleType("my_actions")
    litres: list[str] = []

    def open_valve(amount: str) -> None:
        litres.append(amount)

    module.ACTIONS = {"open-valve": open_valve}  # type: ignore[attr-defined]
    sys.modules["my_actions"] = module
    yield litres
    del sys.modules["my_actions"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    before = nacl._urandom
    site = Site(tmp_path)
    with site.running():
        yield site
    nacl.set_randombytes(before)


@pytest.mark.slow
def test_an_order_reaches_a_board_and_its_own_word_comes_back(site: Site, opened: list[str]) -> None:
    site.live(4)
    assert (site.board.folder / line_orders.OPERATORS_FILE).exists(), "enrolment carries them"
    order = site.order("open-valve", "--arg", "amount=3", "--for", "orchard")
    assert site.outcome(order)["outcome"] == "waiting"
    site.live(3)
    found = site.outcome(order)
    assert (found["outcome"], found["unsigned"], found["label"]) == ("done", False, "orchard")
    assert found["device"] == site.board.key.hex()
    refused = site.order("shut-valve", "--for", "orchard")
    site.live(3)
    assert site.outcome(refused)["code"] == "action_not_defined"
    assert opened == ["3"]
    listed = site.json("order", "list")
    assert [each["outcomes"] for each in listed] == [{"done": 1}, {"refused": 1}]


@pytest.mark.slow
def test_an_order_to_a_board_that_is_away_waits_and_a_lost_answer_is_asked_for_again(
    site: Site, opened: list[str]
) -> None:
    site.live(4)
    site.line.broken = True
    order = site.order("open-valve", "--arg", "amount=3", "--for", "orchard")
    site.live(3)
    assert opened == []
    site.line.broken = False
    say = site.board.core.reporting.say
    site.board.core.reporting.say = lambda kind, *fields: None if kind == line_orders.RESULT else say(kind, *fields)
    site.live(8)
    assert opened == ["3"]
    assert site.outcome(order)["outcome"] == "waiting"
    site.board.boot()
    site.live(8)
    assert site.outcome(order)["outcome"] == "done"
    assert opened == ["3"]


@pytest.mark.slow
def test_a_deleted_order_stops_none_that_comes_later(site: Site, opened: list[str]) -> None:
    site.live(4)
    first = site.order("open-valve", "--arg", "amount=1", "--for", "orchard")
    site.live(3)
    site.delete_what_is_over()
    assert "which a checkpoint covers" in site.fails("order", "show", first, code=1)
    second = site.order("open-valve", "--arg", "amount=2", "--for", "orchard")
    site.live(3)
    assert site.outcome(second)["outcome"] == "done"
    assert opened == ["1", "2"]


@pytest.mark.slow
def test_a_board_is_attached_after_an_order_for_another_one_was_deleted(site: Site, opened: list[str]) -> None:
    meadow = identity("meadow")
    keys = [key_text("sign", meadow.signing_public), key_text("noise", meadow.noise_public)]
    site.ok("group", "add", *keys, "--label", "meadow", "--capability", "board")
    site.live(4)
    site.order("open-valve", "--arg", "amount=1", "--for", "orchard")
    site.ok("setting", "set", "app.mode", "eco", "--for", "kim")
    site.delete_what_is_over()  # which came later than the order, and the order itself is open
    site.live(3)
    now = Now(0, WALL_US)
    with open_device(find_state(str(site.state))) as device:
        orders = board_orders(device)
        assert orders.next_order(site.board.key, "", device.node, now) is None
        assert site.json("history", "delete", "--keep", "0")["deleted"] == 1
        assert orders.next_order(meadow.signing_public, "", device.node, now) is None


@pytest.mark.slow
@pytest.mark.parametrize("hears_of_all", [True, False])
def test_an_order_stays_until_the_board_that_it_is_for_has_answered(
    site: Site, opened: list[str], monkeypatch: pytest.MonkeyPatch, *, hears_of_all: bool
) -> None:
    if not hears_of_all:
        monkeypatch.setattr(forgetting, "hearers", lambda *_: ())
    site.live(4)
    site.line.broken = True
    order = site.order("open-valve", "--arg", "amount=3", "--for", "orchard")
    site.live(3)
    site.delete_what_is_over()
    site.line.broken = False
    site.live(8)
    assert opened == ["3"]
    assert site.outcome(order)["outcome"] == "done"
    site.delete_what_is_over()
    assert "which a checkpoint covers" in site.fails("order", "show", order, code=1)


@pytest.mark.slow
def test_orders_of_each_group_reach_a_board_that_is_in_two(site: Site, opened: list[str]) -> None:
    site.live(4)
    second = site.json("group", "create", "--capability", "collector")["group_id"]
    keys = [key_text("sign", site.board.key), key_text("noise", site.board.keys.noise_public)]
    site.ok("group", "add", *keys, "--label", "orchard", "--capability", "board", "--group", second)
    first = next(each for each in site.json("group", "list") if each["group_id"] != second)["group_id"]
    for number, group in enumerate((second, first)):
        site.order("open-valve", "--arg", f"amount={number}", "--for", "orchard", "--group", group)
    site.live(5)
    assert sorted(opened) == ["0", "1"]


@pytest.mark.slow
def test_an_order_that_a_board_never_answers_holds_up_no_later_one(site: Site, opened: list[str]) -> None:
    site.live(4)
    say = site.board.core.reporting.say
    first = site.order("open-valve", "--arg", "amount=1", "--for", "orchard")
    second = site.order("open-valve", "--arg", "amount=2", "--for", "orchard")

    def say_nothing_of_the_first(kind: int, *fields: Any) -> Any:
        is_of_first = kind == line_orders.RESULT and bytes.fromhex(first) in fields[0]
        return None if is_of_first else say(kind, *fields)

    site.board.core.reporting.say = say_nothing_of_the_first
    site.live(200)
    assert opened == ["1"], "the order of the history, as long as that may help"
    site.live(200)
    assert opened == ["1", "2"]
    assert site.outcome(second)["outcome"] == "done"
    assert [line for line in site.lines if "does not answer" in line] == [
        f"warning board {site.board.key.hex()[:8]} orchard does not answer order {first[:8]}: later ones may go first"
    ]
    site.board.core.reporting.say = say
    site.live(65)
    assert site.outcome(first)["outcome"] == "done"


@pytest.mark.slow
def test_an_operator_that_approves_often_takes_the_place_of_no_other(tmp_path: Path, opened: list[str]) -> None:
    before, site, others = nacl._urandom, Site(tmp_path), (identity("lee"), identity("nina"))
    for each in others:
        site.ok("group", "add", key_text("sign", each.signing_public), key_text("noise", each.noise_public))
    keys = [site.json("key", "show")["signing_key"], *(key_text("sign", each.signing_public) for each in others)]
    site.ok("config", "set", "operations.operators", ",".join(keys))
    site.ok("config", "set", "operations.threshold", "3")
    with site.running():
        site.live(4)
        order = site.order("open-valve", "--arg", "amount=1", "--for", "orchard")
        group = site.device.node.groups.joined()[0].group_id.hex()
        approval = Approval(OperationId(bytes.fromhex(order)))
        for number, author in enumerate((others[0], others[0], others[0], others[1])):
            said(site, group, author, approval, number)
            site.live(2)
        assert opened == ["1"]
        assert site.outcome(order)["outcome"] == "done"
    nacl.set_randombytes(before)


@pytest.mark.slow
def test_a_gateway_that_lost_results_gets_those_again_that_the_board_holds(tmp_path: Path, opened: list[str]) -> None:
    before, site = nacl._urandom, Site(tmp_path)
    with site.running():
        site.live(4)
        given = [site.order("open-valve", "--arg", f"amount={number}", "--for", "orchard") for number in range(12)]
        site.live(20)
        with site.device.store.transaction():  # as a copy that was restored
            site.device.store.database.run("DELETE FROM order_result")
    site.board.boot()
    with site.running():
        site.live(25)
        found = [site.outcome(each)["outcome"] for each in given]
    assert found == 4 * ["refused"] + 8 * ["done"]
    assert len(opened) == 12
    nacl.set_randombytes(before)


@pytest.mark.slow
def test_an_answer_that_nobody_can_read_brings_no_order_again_at_once(site: Site, opened: list[str]) -> None:
    site.live(4)
    say, said = site.board.core.reporting.say, []

    def say_nonsense(kind: int, *fields: Any) -> Any:
        if kind != line_orders.RESULT:
            return say(kind, *fields)
        said.append(fields)
        return say(kind, b"nonsense", fields[1])

    site.board.core.reporting.say = say_nonsense
    site.order("open-valve", "--arg", "amount=1", "--for", "orchard")
    site.live(50)
    assert len(said) == 1
    site.live(20)
    assert len(said) == 2
    assert opened == ["1"]


@pytest.mark.slow
def test_a_setting_reaches_a_board_however_many_commands_wait(
    site: Site, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_COMMANDS", 2)
    site.ok("setting", "set", "board.interval_seconds", "60", "--for", "orchard")
    for number in range(3):
        site.order("open-valve", "--arg", f"amount={number}", "--for", "orchard")
    site.live(8)
    assert site.board.core._settings.interval_us == 60_000_000
    assert opened == ["1", "2"]


@pytest.mark.slow
def test_settings_reach_a_board_and_show_as_applied_or_refused(site: Site) -> None:
    site.live(4)
    site.ok("setting", "set", "board.interval_seconds", "60", "--for", "orchard")
    site.ok("setting", "set", "board.sensors", '[["nosuch", {}]]', "--for", "orchard")
    site.live(4)
    assert site.board.core._settings.interval_us == 60_000_000
    shown = {each["key"]: each for each in site.json("setting", "diff", "--all", "--for", "orchard")}
    assert (shown["board.interval_seconds"]["state"], shown["board.interval_seconds"]["agrees"]) == ("applied", True)
    assert shown["board.sensors"]["state"] == "refused"
    assert "nosuch" in shown["board.sensors"]["why"]
    [refused] = site.json("setting", "diff")
    assert (refused["label"], refused["key"]) == ("orchard", "board.sensors"), "boards are among all devices"
    site.ok("setting", "unset", "board.interval_seconds", "--for", "orchard")
    site.live(3)
    assert site.board.core._settings.interval_us == 10_000_000
    for words in (("board.mtu", "64", "--for", "orchard"), ("board.interval_seconds", "5", "--for", "all")):
        assert site.fails("setting", "set", *words, code=1)
    assert site.fails("setting", "set", "telemetry.batch_seconds", "5", "--for", "orchard", code=1)


@pytest.mark.slow
def test_a_refusal_in_letters_of_several_bytes_is_short_enough_for_the_gateway(site: Site) -> None:
    site.live(4)
    site.ok("setting", "set", "board.sensors", f'[["{100 * "測"}", {{}}]]', "--for", "orchard")
    site.live(4)
    [shown] = site.json("setting", "diff", "--all", "--for", "orchard")
    assert shown["state"] == "refused", site.lines
    assert "測" in shown["why"]


@pytest.mark.slow
def test_a_setting_of_an_operator_that_the_board_has_not_pinned_is_refused_as_a_setting(site: Site) -> None:
    site.live(4)
    others = messages.to_line(line_orders.OPERATORS, 1, [bytes(32)])
    site.board.files.write(line_orders.OPERATORS_FILE, others)
    site.ok("setting", "set", "board.interval_seconds", "60", "--for", "orchard")
    site.live(4)
    [shown] = site.json("setting", "diff", "--all", "--for", "orchard")
    assert (shown["state"], shown["code"]) == ("refused", "action_revoked")
    said = site.said(shown["operation"])
    assert (said.setting, said.signature is None) == ("board.interval_seconds", False)


@pytest.mark.slow
def test_of_a_board_that_takes_no_orders_its_gateway_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "SOFTWARE", "covey-board 0.1.0")
    site.live(4)
    order = site.order("open-valve", "--for", "orchard")
    site.live(2)
    found = site.outcome(order)
    assert (found["outcome"], found["code"], found["unsigned"]) == ("refused", "action_not_allowed", True)
    assert "reported by its gateway" in site.ok("order", "show", order)
    site.ok("setting", "set", "board.interval_seconds", "60", "--for", "orchard")
    site.live(2)
    [shown] = site.json("setting", "diff", "--all", "--for", "orchard")
    assert shown["state"] == "refused"
    assert site.said(shown["operation"]).setting == "board.interval_seconds", "tables tell settings from commands so"
    hidden = ("order", "run", "open-valve", "--secret", "amount", "--for", "orchard")
    assert "cannot receive secrets" in site.fails(*hidden, feed="3\n", code=2)


def _installer(site: Site, word: str, content: bytes = b"", code: int = 0) -> str:
    ended = covey("installer", "board", "--of", str(site.state), word, feed=content)
    assert ended.code == code, ended
    return ended.stdout + ended.stderr


@pytest.mark.slow
def test_an_installer_brings_boards_to_a_firmware_and_knows_when_all_run_it(site: Site, tmp_path: Path) -> None:
    site.board.flash("link_machine.py", "orders.py")
    site.live(4)
    image = tmp_path / "board.image"
    assert site.json("mcu", "pack", str(image))["version"] == messages.SOFTWARE
    assert "not board firmware" in _installer(site, "install", b"nonsense", 1)
    _installer(site, "install", image.read_bytes())
    assert _installer(site, "confirm", code=75) == ""
    while (came := site.board.came()) < 10_000:
        site.live(0.2)
    assert came < 30_000
    site.board.boot()
    while site.board.came() <= came:
        site.live(0.2)
    assert site.board.came() < 30_000, "it goes on"
    while not slot_state.read(site.board.files)[1]:
        site.live(5)
    assert _installer(site, "confirm", code=75) == ""
    site.board.boot()
    assert site.board.slot == "slot_a"
    slot_state.keep(site.board.files)
    site.live(12)
    assert _installer(site, "confirm") == ""
    assert any(line.startswith("notice") and line.endswith(" runs") for line in site.lines), site.lines


@pytest.mark.slow
def test_a_release_waits_for_a_board_that_is_away_while_it_tries_a_firmware(site: Site, tmp_path: Path) -> None:
    site.board.flash("core.py")
    site.live(4)
    image = tmp_path / "board.image"
    site.ok("mcu", "pack", str(image))
    _installer(site, "install", image.read_bytes())
    while not slot_state.read(site.board.files)[1]:
        site.live(5)
    site.live(12)
    [noted] = [value for name, (value, _) in site.device.store.conditions.values().items() if "firmware" in name]
    other = identity("other")
    with site.device.store.transaction():
        good = AttachedBoard("/dev/ttyOTHER", other.keys, "a board", True, True, WALL_US, {})
        site.device.store.boards.note(good)
        runs = noted.split()[0] + " runs"
        site.device.store.conditions.set(FIRMWARE_CONDITION + other.signing_public.hex(), runs, WALL_US)
    site.line.broken = True
    site.live(60)
    assert [each.up for each in site.device.store.boards.all()] == [True, False]
    assert _installer(site, "confirm", code=75) == ""
    _installer(site, "install", image.read_bytes())
    assert not any(value for name, (value, _) in site.device.store.conditions.values().items() if "firmware" in name)


@pytest.mark.slow
def test_a_board_on_which_a_firmware_is_no_good_fails_the_release(site: Site, tmp_path: Path) -> None:
    site.board.flash("core.py")
    site.live(4)
    image = tmp_path / "board.image"
    site.ok("mcu", "pack", str(image), "--heap", "0")
    _installer(site, "install", image.read_bytes())
    while not slot_state.read(site.board.files)[1]:
        site.live(5)
    for _ in range(3):
        site.board.boot()
    assert site.board.slot == ""
    site.live(12)
    assert _installer(site, "confirm", code=1) == ""
    _installer(site, "rollback")
    assert not find_state(str(site.state)).board_firmware.exists()
    strange = Here(tmp_path, "stranger")
    strange.ok("mcu", "pack", str(image), "--heap", "1")
    assert len(strange.json("mcu", "sign", str(image))["signers"]) == 1, "it has signed it already"
    assert site.ok("mcu", "sign", str(image)).count(", signed by ") == 1
    assert len(strange.json("mcu", "sign", str(image))["signers"]) == 2
    strange.ok("mcu", "pack", str(image), "--heap", "1")
    _installer(site, "install", image.read_bytes())
    site.live(4)
    assert _installer(site, "confirm", code=1) == ""
    assert any("none of the operators" in line for line in site.lines), site.lines
    assert "'z80' is unknown" in site.fails("mcu", "pack", str(image), "--architecture", "z80", code=2)
