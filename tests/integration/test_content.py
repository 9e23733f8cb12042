"""Files from one device to others, through a real broker: put, get, killed on the way, and every mistake on it."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.cli.main import INTERRUPTED
from covey.client import Client
from covey.limits.content import CHUNK_BYTES, MAXIMUM_CONTENT_BYTES
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker

_SIZE = 3_000_000


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway]) -> list[Gateway]:
    """Three devices of one group, whose agents run."""
    devices = [new_gateway(name) for name in ("hub", "shed", "barn")]
    devices[0].ok("group", "create")
    devices[0].start("run", "--no-sensors")
    for each in devices[1:]:
        devices[0].invite(each)
        each.start("run", "--no-sensors")
    wait_until(lambda: all(len(each.json("group", "show")["members"]) == 3 for each in devices), "all know all")
    return devices


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "model v2.bin"
    path.write_bytes(random.Random(2).randbytes(_SIZE))
    return path


def _offered(device: Gateway, name: str) -> None:
    wait_until(lambda: name in device.ok("file", "list"), f"{name} is offered here")


def _damage(device: Gateway, content: str) -> None:
    """Have the disk change a byte of a file that is there, in its last chunk, and add one."""
    path = device.state / "state.content" / content
    sealed = bytearray(path.read_bytes())
    sealed[-1] ^= 1
    path.write_bytes(sealed + b"x")


# accepts: 003.69, 003.70, 003.71, 003.72, 003.74, 002.17, 002.18
def test_a_file_reaches_who_asks_for_it_and_nobody_else(fleet: list[Gateway], original: Path, tmp_path: Path) -> None:
    """Through the command."""
    hub, shed, barn = fleet
    put = hub.json("file", "put", str(original))
    assert put["id"] in hub.ok("history", "log", "--json"), "a file is known by what offers it in the history"
    assert (put["name"], put["size"], put["state"], put["pinned"]) == (original.name, _SIZE, "here", True)
    _offered(shed, original.name)
    target = tmp_path / "of shed"
    got = shed.json("file", "get", original.name, "-o", str(target))
    assert target.read_bytes() == original.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o600
    assert got["path"] == str(target)
    wait_until(lambda: hub.json("file", "show", put["id"][:8])["holders"] == 1, "the author hears of it")
    assert not [*barn.state.glob("state.content/*")], "nobody asked for it there"
    assert "1 of 1 file intact" in shed.ok("file", "verify")
    _damage(shed, put["hash"])
    shed.ok("file", "get", original.name, "-o", str(target), "--force")
    assert target.read_bytes() == original.read_bytes(), "what the disk has changed is fetched anew"
    (shed.state / "state.content" / put["hash"]).unlink()
    shed.ok("file", "get", original.name, "-o", str(target), "--force")
    _damage(shed, put["hash"])
    assert f"damaged: {original.name}; fetching it again" in shed.covey("file", "verify").stdout
    wait_until(lambda: "1 of 1 file intact" in shed.covey("file", "verify").stdout, "it is whole again")
    hub.kill()
    folder = tmp_path / "folder"
    folder.mkdir()
    barn.ok("file", "get", put["hash"][:12], "-o", str(folder), "--pin")
    assert (folder / original.name).read_bytes() == original.read_bytes()
    assert barn.json("file", "list")[0]["pinned"]


# accepts: 002.22
def test_a_newcomer_opens_pinned_files_and_learns_which_it_cannot_open(
    new_gateway: Callable[[str], Gateway], original: Path, tmp_path: Path
) -> None:
    """After a removal, which begins another epoch: by a relay, by a stick, by a program, and in vain."""
    hub, gone, loft = (new_gateway(name) for name in ("hub", "gone", "loft"))
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    hub.invite(gone)
    put = hub.json("file", "put", str(original))
    loose = hub.json("file", "put", str(original), "--no-pin", "--name", "loose")
    hub.ok("group", "remove", "gone", "--yes")
    hub.invite(loft)
    stick = hub.json("file", "export", put["id"], str(tmp_path))["path"]
    loft.ok("config", "set", "api.socket", "api.sock")
    loft.start("run", "--no-sensors")
    _offered(loft, original.name)
    assert "no member has sent its key" in loft.fails(
        "file", "get", "loose", "--wait", "2s", "-o", str(tmp_path), code=1
    )
    assert [(each["name"], each["state"]) for each in loft.json("file", "list", "--waiting")] == [("loose", "locked")]
    assert "no member has sent the key yet" in loft.covey("check").stdout
    assert loft.json("file", "import", stick)["state"] in {"locked", "here"}
    parts = Client(loft.state / "api.sock").content.get(original.name, wait_s=60)
    assert b"".join(parts) == original.read_bytes(), "which waits for its key"
    loft.ok("file", "get", "loose", "-o", str(tmp_path / "loose"))
    assert (tmp_path / "loose").read_bytes() == original.read_bytes(), "it is of the same epoch"
    assert loose["pinned"] is False


def test_a_fetch_that_is_killed_goes_on_where_it_was(fleet: list[Gateway], tmp_path: Path) -> None:
    hub, shed, _ = fleet
    original = tmp_path / "large.bin"
    original.write_bytes(random.Random(3).randbytes(20_000_000))
    put = hub.json("file", "put", str(original))
    _offered(shed, original.name)
    hub.kill()
    fetching = shed.start_beside("file", "get", original.name)
    wait_until(lambda: shed.json("file", "list", "--waiting"), "it is asked for")
    fetching.send_signal(signal.SIGINT)
    assert fetching.wait(GUARD_S) == INTERRUPTED
    printed = shed.log.read_text()
    assert f"interrupted: '{original.name}' stays requested, 0 B of 19.1 MiB are here; the agent" in printed
    assert f"to watch: covey file get {put['id'][:8]}" in printed
    shed.fails("file", "get", original.name, "--wait", "0s", code=124)
    hub.start("run", "--no-sensors")
    part = shed.state / "state.content" / f"{put['hash']}.part"
    sizes = [0]
    for _ in range(3):
        wait_until(lambda: part.exists() and part.stat().st_size > sizes[-1] + CHUNK_BYTES, "something more has come")
        shed.kill()
        sizes.append(part.stat().st_size)
        assert len(shed.json("file", "list", "--waiting")) == 1
        shed.start("run", "--no-sensors")
    target = tmp_path / "got"
    shed.ok("file", "get", original.name, "-o", str(target))
    assert target.read_bytes() == original.read_bytes()
    assert sizes == sorted(sizes), "nothing was fetched from the beginning"
    assert shed.json("file", "list", "--waiting") == []


def test_a_stick_carries_a_file_past_every_broker(fleet: list[Gateway], original: Path, tmp_path: Path) -> None:
    hub, shed, barn = fleet
    put = hub.json("file", "put", str(original))
    _offered(shed, original.name)
    shed.kill()
    stick = tmp_path / "stick"
    stick.mkdir()
    sealed = Path(hub.json("file", "export", put["id"][:8], str(stick))["path"])
    assert sealed.read_bytes()[:64] not in original.read_bytes(), "sealed"
    half = stick / "half"
    half.write_bytes(sealed.read_bytes()[:-1])
    assert "is not a complete file" in shed.fails("file", "import", str(half), code=1)
    assert shed.json("file", "list")[0]["state"] == "offered"
    assert shed.json("file", "import", str(sealed))["state"] == "here"
    target = tmp_path / "got"
    shed.ok("file", "get", original.name, "-o", str(target))
    assert target.read_bytes() == original.read_bytes()
    assert "is not on this device" in barn.fails("file", "export", put["id"][:8], str(stick), code=1)
    assert not list(shed.state.glob("state.content/.*"))


def test_a_file_that_was_put_a_moment_ago_is_waited_for(fleet: list[Gateway], original: Path, tmp_path: Path) -> None:
    hub, shed, _ = fleet
    shed.kill()
    hub.ok("file", "put", str(original))
    assert "no file matches" in shed.fails("file", "get", original.name, "--no-wait", code=1)
    shed.ok("file", "get", original.name, "-o", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == original.read_bytes()


# accepts: 002.33
def test_mistakes_have_one_line_and_a_hint(
    fleet: list[Gateway], original: Path, tmp_path: Path
) -> None:  # accepts: 002.33
    hub, shed, _ = fleet
    assert "cannot be read" in hub.fails("file", "put", str(tmp_path / "nothing"), code=1)
    assert "is not a regular file" in hub.fails("file", "put", str(tmp_path), code=1)
    for name in ("../etc/passwd", "a/b", "", "..", "tab\tname"):
        assert "is not a file name" in hub.fails("file", "put", str(original), "--name", name, code=2)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(MAXIMUM_CONTENT_BYTES + 1)
    assert "at most" in hub.fails("file", "put", str(huge), code=1)
    assert not list(hub.state.glob("state.content/*"))
    put = hub.json("file", "put", str(original))
    assert "no file matches" in shed.fails("file", "get", "nothing", "--no-wait", code=1)
    target = tmp_path / "there"
    target.write_text("mine")
    assert "already exists" in hub.fails("file", "get", original.name, "-o", str(target), code=1)
    assert target.read_text() == "mine"
    hub.ok("file", "get", original.name, "-o", str(target), "--force")
    assert target.read_bytes() == original.read_bytes()
    assert "cannot be undone" in hub.fails("file", "delete", put["id"], code=2)
    hub.ok("file", "delete", put["id"], "--yes")
    assert hub.json("file", "list")[0]["state"] == "offered"
    assert not [*hub.state.glob("state.content/*")]
    loose = tmp_path / "loose"
    loose.write_bytes(b"newer ones may take its room")
    hub.ok("file", "put", str(loose), "--pin")
    hub.ok("file", "put", str(loose), "--no-pin", "--name", "looser")
    assert {each["name"]: each["pinned"] for each in hub.json("file", "list") if each["state"] == "here"} == {
        "loose": True,
        "looser": False,
    }
    hub.ok("config", "set", "content.maximum_mb", "1")
    assert "content.maximum_mb" in hub.fails("file", "put", str(original), code=1)
