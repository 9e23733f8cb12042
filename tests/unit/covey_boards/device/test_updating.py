"""A firmware for a board: signed, in two slots, and whatever the power does the old one or the new one."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covey.core import crypto
from covey.core.actions.results import OrderResult
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey
from covey.core.wire import cbor as agent_cbor
from covey.errors import LimitError, RemoteError
from covey_boards.device import slot_state, slots, updating
from covey_boards.device.storage import Files
from covey_boards.device.updating import FAILED, RECEIVING, REFUSED, RUNS, TRIED, Update
from covey_boards.images import read_image, sign_image, write_image
from covey_boards.shared import cbor, line_orders
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from tests.fleet import identity
from tests.vectors import load

CONTENTS = {
    "core.py": b"new core " * 300,
    "cbor.py": b"x = 1",
    "messages.py": b"SOFTWARE = 'newer'\n",
    "main.py": b"stays",
}


class PowerCutError(BaseException):
    """The power has gone."""


class Flash(Files):
    """A board's flash; after so many writes of its small files the power goes, before or after the last of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}/")
        self.writes_left: float = float("inf")

    def write(self, name: str, data: bytes) -> None:
        self.writes_left -= 0.5
        if self.writes_left <= 0:
            raise PowerCutError
        super().write(name, data)
        self.writes_left -= 0.5
        if self.writes_left <= 0:
            raise PowerCutError


@pytest.fixture
def operator() -> Identity:
    return identity("operator")


@pytest.fixture
def flash(tmp_path: Path, operator: Identity) -> Flash:
    found = Flash(tmp_path)
    found.write(line_orders.OPERATORS_FILE, cbor.encode([line_orders.OPERATORS, 1, [operator.signing_public]]))
    return found


def _image(operator: Identity, contents: dict[str, bytes] = CONTENTS, architecture: str = "", heap: int = 0) -> Any:
    return read_image(write_image(contents, architecture, heap, operator))


def _send(flash: Flash, image: Any, piece: int = 1_000) -> Update:
    update = Update(flash, image.announced)
    while update.state == RECEIVING:
        before = update.offset
        update.take(update.offset, image.contents[update.offset : update.offset + piece])
        assert update.offset > before or update.state != RECEIVING
    return update


def _held(flash: Flash, slot: str) -> dict[str, bytes]:
    """Return the modules that lie in a slot."""
    return {path.name: path.read_bytes() for path in (Path(flash.folder) / slot).iterdir() if path.suffix}


@pytest.mark.slow
def test_a_firmware_goes_into_the_other_slot_and_stays_once_it_is_acknowledged(
    flash: Flash, operator: Identity
) -> None:
    image = _image(operator)
    update = _send(flash, image)
    assert (update.state, update.installed, update.id) == (TRIED, True, image.digest)
    assert _held(flash, "slot_a") == {name: content for name, content in CONTENTS.items() if name != "main.py"}
    assert slots.choose(flash) == "slot_a"
    assert Update(flash, image.announced).state == TRIED
    slot_state.keep(flash)
    assert [slots.choose(flash) for _ in range(4)] == ["slot_a"] * 4
    assert Update(flash, image.announced).state == RUNS
    second = _image(operator, {"core.py": b"newer still"})
    assert _send(flash, second).state == TRIED
    assert slots.choose(flash) == "slot_b"
    third = Update(flash, _image(operator, {"core.py": b"one more"}).announced)
    assert (third.state, third.why) == (REFUSED, "another one is on trial")


@pytest.mark.slow
def test_an_unacknowledged_firmware_is_reported_failed(flash: Flash, operator: Identity) -> None:
    image = _image(operator)
    _send(flash, image)
    assert [slots.choose(flash) for _ in range(4)] == ["slot_a", "slot_a", "", ""]
    update = Update(flash, image.announced)
    assert (update.state, update.installed) == (FAILED, False)
    better = _image(operator, {"core.py": b"better"})
    _send(flash, better)
    assert slots.choose(flash) == "slot_a"
    slot_state.fall_back(flash)
    assert slots.choose(flash) == "", "its time was over"


@pytest.mark.slow
@pytest.mark.parametrize("writes", [half / 2 for half in range(1, 8)])
@pytest.mark.parametrize("seed", range(2))
def test_after_a_power_cut_it_is_the_old_or_the_new_one(
    flash: Flash, operator: Identity, writes: float, seed: int
) -> None:
    image = _image(operator)
    flash.writes_left = writes
    with suppress(PowerCutError):
        _send(flash, image, 500 + seed)
    flash.writes_left = float("inf")
    started = slots.choose(flash)
    assert started in {"", "slot_a"}
    if started:
        assert _held(flash, "slot_a").keys() == CONTENTS.keys() - {"main.py"}
    else:
        assert _send(flash, image).state == TRIED
        assert slots.choose(flash) == "slot_a"


@pytest.mark.slow
def test_it_goes_on_where_it_was_cut_off_in_whatever_byte(flash: Flash, operator: Identity) -> None:
    image, rng = _image(operator), random.Random(3)
    sent = 0
    while True:
        update = Update(flash, image.announced)
        if update.state != RECEIVING:
            break
        assert update.offset >= sent
        size = rng.randrange(1, 700)
        update.take(update.offset, image.contents[update.offset : update.offset + size])
        sent = update.offset
        path = Path(flash.folder) / "slot_a" / "core.py"
        if update.state == RECEIVING and path.stat().st_size < len(CONTENTS["core.py"]) and rng.random() < 0.5:
            os.truncate(path, max(0, path.stat().st_size - rng.randrange(size)))
            sent = 0
    assert update.state == TRIED
    assert _held(flash, "slot_a")["core.py"] == CONTENTS["core.py"]


@pytest.mark.slow
def test_an_unfitting_or_unsigned_firmware_changes_nothing(
    flash: Flash, operator: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "architecture_here", lambda: ("armv6m", 6))
    monkeypatch.setattr(updating.gc, "mem_free", lambda: 40_000, raising=False)
    monkeypatch.setattr(updating.gc, "mem_alloc", lambda: 20_000, raising=False)
    stranger = Update(flash, _image(identity("stranger")).announced)
    assert (stranger.state, stranger.why[:22]) == (REFUSED, "it is signed by none o")
    fields = agent_cbor.decode(_image(operator).announced, 10_000)
    assert isinstance(fields, list)
    forged = Update(flash, agent_cbor.encode([fields[0], fields[1], fields[2][:-1] + b"\0"]))
    assert (forged.state, forged.why) == (REFUSED, "its signature does not hold")
    for image, why in (
        (_image(operator, architecture="armv7em"), "it is for armv7em, and this board is armv6m"),
        (_image(operator, heap=65_536), "it needs 65536 bytes of heap"),
        (_image(operator, {"../main.py": b"x"}), "it has a file that a firmware has not"),
        (_image(operator, {"core.py": b""}), "it has a file that a firmware has not"),
        (_image(operator, {"identity.key": b"x"}), "it has a file that a firmware has not"),
    ):
        update = Update(flash, image.announced)
        update.take(0, image.contents)
        assert (update.state, update.why) == (REFUSED, why)
    assert Update(flash, _image(operator, architecture="armv6m").announced).state == RECEIVING
    mpy = _image(operator, {"core.mpy": b"M"})
    monkeypatch.setattr(updating, "architecture_here", lambda: ("armv6m", 5))
    assert Update(flash, mpy.announced).state == REFUSED
    assert slots.choose(flash) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "fits"),
    [
        ("armv6m", {"armv6m"}),
        ("armv7em", {"armv6m", "armv7m", "armv7em"}),  # what a Cortex-M3 calls itself
        ("x64", {"x64"}),
        ("", set()),
    ],
)
def test_native_code_of_a_lesser_cortex_m_fits(
    flash: Flash, operator: Identity, monkeypatch: pytest.MonkeyPatch, here: str, fits: set[str]
) -> None:
    monkeypatch.setattr(updating, "architecture_here", lambda: (here, 6))
    for architecture in ("armv6m", "armv7m", "armv7em", "armv7emsp", "x64"):
        state = Update(flash, _image(operator, architecture=architecture).announced).state
        assert state == (RECEIVING if architecture in fits else REFUSED), architecture


@pytest.mark.slow
@pytest.mark.parametrize(("at", "what"), [(1, "its list of files"), (-1, "messages.py")])
def test_contents_that_are_not_what_was_signed_never_start(
    flash: Flash, operator: Identity, at: int, what: str
) -> None:
    image = _image(operator)
    update, contents = Update(flash, image.announced), bytearray(image.contents)
    contents[at] ^= 1
    update.take(0, bytes(contents))
    assert (update.state, update.why) == (REFUSED, f"{what} is not what was signed")
    assert slots.choose(flash) == ""
    assert _send(flash, image).state == TRIED, "sent anew"


def test_a_firmware_announcement_fits_a_small_heap(operator: Identity) -> None:
    image = _image(operator, {f"module_{number}.py": bytes([number + 1]) for number in range(60)})
    assert len(image.contents) > 2_900
    assert len(image.announced) < 256


@pytest.mark.parametrize("folder", ["", "rom/"])
def test_files_already_flashed_are_not_transferred(
    flash: Flash, operator: Identity, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "_ROM", f"{flash.folder}rom/")
    (Path(flash.folder) / "rom").mkdir()
    for name, content in {**CONTENTS, "messages.py": b"SOFTWARE = 'older'\n"}.items():
        (Path(flash.folder) / folder / name).write_bytes(content)
    image = _image(operator)
    update = Update(flash, image.announced)
    brought = 0
    while update.state == RECEIVING:
        part = image.contents[update.offset :][:100]
        brought += len(part)
        update.take(update.offset, part)
    assert _held(flash, "slot_a") == {"messages.py": CONTENTS["messages.py"]}
    assert (update.state, update.installed, slots.choose(flash)) == (TRIED, True, "slot_a")
    assert brought < 300 < len(image.contents)


def test_other_flashed_files_are_not_taken_for_a_firmware(flash: Flash, operator: Identity) -> None:
    folder = Path(flash.folder)
    (folder / "core.py").write_bytes(b"old core " * 300)
    (folder / "cbor.mpy").write_bytes(CONTENTS["cbor.py"])
    _send(flash, _image(operator))
    assert _held(flash, "slot_a").keys() == CONTENTS.keys() - {"main.py"}


def test_a_firmware_that_the_flash_has_no_room_for_is_refused_before_it_comes(
    flash: Flash, operator: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, free = _image(operator), 8_192 + sum(map(len, CONTENTS.values())) - len(CONTENTS["main.py"])
    monkeypatch.setattr(updating.os, "statvfs", lambda _path: (1, 0, 0, free - 1))
    update = Update(flash, image.announced)
    update.take(0, image.contents[:1_000])
    assert (update.state, update.why) == (REFUSED, f"the flash has {free - 1} bytes free")
    assert _held(flash, "slot_a") == {}
    (Path(flash.folder) / "cbor.py").write_bytes(CONTENTS["cbor.py"])
    assert _send(flash, image).state == TRIED, "what was flashed needs no room"


def test_a_header_of_another_kind_is_refused(flash: Flash, operator: Identity) -> None:
    header = agent_cbor.encode([2, "newer", "", 0, 0, [["core.py", 1, bytes(32)]]])
    signed = crypto.sign(b"covey/1 board firmware", header, operator)
    update = Update(flash, agent_cbor.encode([signed, operator.signing_public, header]))
    assert (update.state, update.why) == (REFUSED, "it is of another kind than this board takes")
    with pytest.raises(RemoteError):
        read_image(agent_cbor.encode([signed, operator.signing_public, header, b"x"]))


def test_a_list_that_is_none_is_refused_although_it_is_signed(flash: Flash, operator: Identity) -> None:
    listed = b"\xff" * 40
    header = agent_cbor.encode([1, "x", "", 0, 0, len(listed), updating.digest([listed])])
    signed = crypto.sign(b"covey/1 board firmware", header, operator)
    update = Update(flash, agent_cbor.encode([signed, operator.signing_public, header]))
    update.take(0, listed)
    assert (update.state, update.why) == (REFUSED, "its list of files is none")


@pytest.mark.parametrize("raw", [b"", b"\xff", cbor.encode(["", "slot_c", 0, b"", b"", b""]), cbor.encode([1] * 6)])
def test_a_damaged_slot_file_starts_what_was_flashed(flash: Flash, raw: bytes) -> None:
    flash.write(slot_state.FILE, raw)
    assert slots.choose(flash) == ""


def test_a_firmware_that_nobody_acknowledges_is_gone_from_when_its_time_is_over() -> None:
    before = nacl._urandom
    try:
        simulation.trial()
    finally:
        nacl.set_randombytes(before)


def _pinned(flash: Flash, threshold: int, *operators: Identity) -> None:
    keys = [each.signing_public for each in operators]
    flash.write(line_orders.OPERATORS_FILE, cbor.encode([line_orders.OPERATORS, threshold, keys]))


@pytest.mark.slow
def test_a_firmware_needs_as_many_operators_as_an_order(flash: Flash, operator: Identity) -> None:
    second, third, foreign = identity("second"), identity("third"), identity("foreign")
    _pinned(flash, 2, operator, second, third)
    raw = write_image(CONTENTS, "", 0, operator)
    alone = Update(flash, read_image(raw).announced)
    assert (alone.state, alone.why) == (REFUSED, "1 of 2 operators have signed it")
    strange = Update(flash, read_image(sign_image(raw, foreign)).announced)
    assert (strange.state, strange.why) == (REFUSED, "1 of 2 operators have signed it")
    both = read_image(sign_image(sign_image(raw, foreign), second))
    assert both.signers == (operator.signing_public, foreign.signing_public, second.signing_public)
    assert both.digest == read_image(raw).digest, "the same firmware, whoever has signed it"
    assert _send(flash, both).state == TRIED


def test_one_signature_does_not_count_twice_and_a_wrong_one_not_at_all(flash: Flash, operator: Identity) -> None:
    second = identity("second")
    _pinned(flash, 2, operator, second)
    signature, signer, header = agent_cbor.decode(_image(operator).announced, 1 << 16)  # type: ignore[misc]
    twice = agent_cbor.encode([signature, signer, header, [[signature, signer]]])
    assert Update(flash, twice).why == "1 of 2 operators have signed it"
    forged = agent_cbor.encode([signature, signer, header, [[bytes(64), second.signing_public]]])
    assert Update(flash, forged).why == "its signature does not hold"
    hidden = [[bytes(64), bytes(32)]] * 3 + [[bytes(64), second.signing_public]]
    assert Update(flash, agent_cbor.encode([signature, signer, header, hidden])).state == REFUSED, "beyond the fourth"
    for malformed in ([signature, signer, header, [b""]], [signature, signer, header, b""], [signature, signer]):
        with pytest.raises(cbor.WireError):
            Update(flash, agent_cbor.encode(malformed))


def test_an_image_is_signed_once_by_each_and_by_four_at_most(operator: Identity) -> None:
    raw = write_image(CONTENTS, "", 0, operator)
    assert sign_image(raw, operator) == raw
    for name in ("second", "third", "fourth"):
        raw = sign_image(raw, identity(name))
    assert len(read_image(raw).signers) == 4
    with pytest.raises(LimitError):
        sign_image(raw, identity("fifth"))
    fields = agent_cbor.decode(raw, 1 << 20)
    with pytest.raises(RemoteError):
        read_image(agent_cbor.encode([*fields[:4], [fields[4][0], fields[4][0]]]))  # type: ignore[index]


@pytest.mark.slow
def test_the_firmware_of_the_vectors_is_taken_or_refused_as_they_say(tmp_path: Path) -> None:
    loaded = load("boards")
    for number, entry in enumerate(loaded["firmware"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        flash = Flash(folder)
        pinned = [bytes.fromhex(loaded["keys"][name]["signing_public"]) for name in entry["pinned"]]
        flash.write(line_orders.OPERATORS_FILE, cbor.encode([line_orders.OPERATORS, entry["threshold"], pinned]))
        image = read_image(bytes.fromhex(entry["bytes"]))
        assert (image.announced.hex(), image.digest.hex()) == (entry["announced"], entry["digest"]), entry["name"]
        update = Update(flash, image.announced)
        assert (update.why, update.state) == (entry["why"], REFUSED if entry["outcome"] else RECEIVING)


def test_the_results_of_the_vectors_are_their_boards_or_nobodys() -> None:
    loaded = load("boards")
    for entry in loaded["results"]:
        board = DeviceKey(bytes.fromhex(loaded["keys"][entry["board"]]["signing_public"]))
        result, signature = bytes.fromhex(entry["bytes"]), bytes.fromhex(entry["signature"])
        try:
            OrderResult.from_wire(agent_cbor.encode([result, board, signature]))
            code = None
        except RemoteError as error:
            code = error.code
        assert code == entry["code"], entry["name"]
