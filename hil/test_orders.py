"""Orders and updates on real MicroPython, with files as a board gets them; orders in the smallest heap promised."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, GroupId, Incarnation, ManifestHash, OperationId
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey.limits.board import BOARD_PART_BYTES
from covey_boards.images import read_image, write_image
from covey_boards.updates import FAILED, RUNS, TRIED
from hil.boards.drivers import Driver, UnixPort
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.firmware_files import written
from hil.boards.live_gateway import LiveGateway
from hil.conftest import cross_compile
from hil.on_board.firmware_simulation import GROUP
from tests.fleet import identity

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATOR = identity("operator")
ACTIONS = b"""
def note(text):
    with open("noted", "a") as file:
        file.write(text)
    return "noted " + text
ACTIONS = {"note": note}
"""
QUICK = {
    "interval_seconds": 0.2,
    "batch_seconds": 0.5,
    "sensors": [["counter", {}]],
    "trial_seconds": 40,
    "rest_seconds": 3,
}
HEAP_KIB = 96  # what is ordered needs 14 KB beside what measures; 64 KiB leave four


class Site:
    """An emulated board with a gateway that hands it orders and firmware."""

    def __init__(self, folder: Path, tool: Any, architecture: str, modules: dict[str, bytes], heap_kib: int) -> None:
        self.architecture, self.modules, self.heap_kib = architecture, modules, heap_kib
        self._is_small = heap_kib < HEAP_KIB
        self.board = EmulatedBoard(folder, tool=tool, modules=modules, settings=QUICK, heap_kib=heap_kib, baud=None)
        (self.board.flash / "my_actions.py").write_bytes(ACTIONS)
        self.board.start()
        self.gateway = LiveGateway(self.board)
        self.gateway.operators = [OPERATOR.signing_public]
        self._height = 2
        self.serve(lambda: self.gateway.collector.readings and self.gateway.reports)

    def serve(self, until: Callable[[], object]) -> None:
        self.gateway.serve(until)

    def cut_power(self) -> None:
        self.board.kill()
        self.board.start()

    def restarts(self) -> None:
        """Wait until the board ends its process, as it restarts, and switch it on."""
        with pytest.raises(TimeoutError):
            self.serve(lambda: False)
        assert not self.board.alive, self.board.state
        self.board.start()

    def installs(self) -> None:
        """Wait until a board has all of a firmware: its word is on the way when it restarts, and may be lost."""
        progress = self.gateway.progress
        self.serve(lambda: not self.board.alive or (progress and progress[-1][0] == TRIED))

    def live(self, until: Callable[[], object]) -> None:
        self.gateway.live(until)

    def order(self, body: Any) -> bytes:
        self._height += 1
        log = Log(OPERATOR.signing_public, Incarnation(b"operates"))
        operation = Operation(
            *(GroupId(GROUP), log, 1, None, (OperationId(bytes(32)),), self._height, ManifestHash(bytes(32))),
            *(0, int(body.kind), body.to_wire()),
        )
        return sign_operation(operation, OPERATOR).raw

    @property
    def selector(self) -> Selector:
        return Selector(SelectorKind.DEVICES, devices=(self.key,))

    @property
    def key(self) -> DeviceKey:
        return DeviceKey(bytes(self.gateway.identities[-1].signing_public))

    def give(self, raw: bytes) -> OrderResult:
        before = len(self.gateway.results)
        self.gateway.order(raw)
        self.serve(lambda: len(self.gateway.results) > before)
        body, signature = self.gateway.results[-1]
        if self._is_small:  # it has dealt with it in the place of all else
            self.restarts()
        return OrderResult.from_wire(cbor.encode([body, self.key, signature]))


@pytest.fixture
def heap_kib() -> int:
    return HEAP_KIB


@pytest.fixture
def site(board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path, heap_kib: int) -> Any:
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no standard input to serve as a line")
    modules = artefacts(board.architecture)
    compiled = {name: modules[name] for name in modules if not name.startswith("driver_")}
    found = Site(tmp_path, board.tool, board.architecture, compiled, heap_kib)
    yield found
    found.gateway.stop()
    found.board.close()


def _newer(site: Site, text: str, *, whole: bool = False, broken: bytes | None = None) -> Any:
    """Return an image of the same firmware with another name of itself; `whole`: each of its files is another one."""
    with tempfile.TemporaryDirectory() as folder:
        originals = {f"{path.stem}.mpy": path for path in written(Path(folder))}
        messages = originals["messages.mpy"]
        messages.write_bytes(messages.read_bytes().replace(b"covey-board 0.2.0", text.encode()))
        changed = dict(site.modules)
        for name in site.modules if whole else ["messages.mpy"]:
            source = Path(folder) / "other.py"
            source.write_bytes(originals[name].read_bytes())
            needs_viper = b"@micropython.viper" in source.read_bytes()
            changed[name] = cross_compile(site.architecture if needs_viper else "", source)
    if broken is not None:
        changed["core.mpy"] = broken
    return read_image(write_image(changed, "", 1_024 * site.heap_kib, OPERATOR))


@pytest.mark.parametrize("heap_kib", [63, HEAP_KIB], ids=["one KiB below 64", "96"])
def test_an_order_is_done_once_and_a_setting_holds(site: Site) -> None:
    raw = site.order(CommandOrder(site.selector, "note", {"text": "x"}, secrets.token_bytes(16)))
    done = site.give(raw)
    assert (done.state, done.exit, done.output) == (CommandState.DONE, 0, b"noted x")
    site.cut_power()
    assert site.give(raw) == done
    assert site.board.file("noted") == b"x"
    faster = site.give(site.order(SettingOrder(site.selector, "board.interval_seconds", "0.1")))
    assert (faster.state, faster.setting) == (CommandState.DONE, "board.interval_seconds")
    refused = site.give(site.order(SettingOrder(site.selector, "board.sensors", '[["nosuch", {}]]')))
    assert (refused.state, refused.code) == (CommandState.REFUSED, "setting_value")
    reports = len(site.gateway.reports)
    site.cut_power()
    site.serve(lambda: len(site.gateway.reports) > reports)
    assert site.gateway.reports[-1]["out_of_memory"] == 0


@pytest.mark.parametrize("heap_kib", [64])
def test_an_order_may_have_a_kilobyte_in_64_kib(site: Site) -> None:
    longest = {f"t{number}": "y" * 250 for number in range(3)}
    raw = site.order(CommandOrder(site.selector, "note", longest, secrets.token_bytes(16)))
    assert len(raw) > 1_000
    failed = site.give(raw)
    assert (failed.state, failed.exit) == (CommandState.DONE, 1), "a deed that takes none of these"


@pytest.mark.parametrize("heap_kib", [64])
def test_a_firmware_comes_over_the_line_and_stays_when_its_collector_answers(site: Site) -> None:
    site.gateway.image = _newer(site, "covey-board 9.0.0", whole=True)
    site.gateway.announce()
    site.live(lambda: site.gateway.progress and site.gateway.progress[-1][1] > 20_000)
    site.cut_power()
    came = len(site.gateway.progress)
    site.live(lambda: len(site.gateway.progress) > came)
    assert site.gateway.progress[came][1] >= 20_000, "it goes on where it was cut off"
    site.live(lambda: site.gateway.progress[-1][0] == TRIED)
    site.live(lambda: b"slot_a" in site.board.file("slot.cbor")[:8])
    assert site.gateway.software[-1] == "covey-board 9.0.0"
    reports = len(site.gateway.reports)
    site.cut_power()
    site.serve(lambda: site.gateway.progress[-1][0] == RUNS and len(site.gateway.reports) > reports)
    assert site.gateway.software[-1] == "covey-board 9.0.0"
    assert site.gateway.reports[-1]["out_of_memory"] == 0, "it says how it stands beside all else"


def test_of_a_firmware_comes_what_the_board_has_not_been_flashed_with(site: Site) -> None:
    site.gateway.image = _newer(site, "covey-board 9.0.0")
    site.gateway.announce()
    site.installs()
    parts = len(site.gateway.progress) - 1
    assert parts * BOARD_PART_BYTES < 10_000 < len(site.gateway.image.contents)
    site.restarts()
    site.serve(lambda: "covey-board 9.0.0" in site.gateway.software)
    site.serve(lambda: b"slot_a" in site.board.file("slot.cbor")[:8])


def test_a_firmware_that_does_not_start_is_gone_from_after_two_starts(site: Site) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "core.py"
        source.write_text("raise ValueError('a bad release')\n")
        broken = cross_compile("", source)
    site.gateway.image = _newer(site, "covey-board 9.9.9", broken=broken)
    site.gateway.announce()
    site.installs()
    for _ in range(3):
        site.restarts()
    site.serve(lambda: site.gateway.progress[-1][0] == FAILED)
    assert site.gateway.software[-1] == "covey-board 0.2.0"
    assert any("a bad release" in str(each) for each in site.gateway.troubles), site.gateway.troubles
