"""A new version of a file as a patch: offered where it is smaller, taken where the one before is here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.client import Client
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_SIZE = 2_000_000


def _versions(folder: Path) -> tuple[Path, Path]:
    chance = random.Random(3)
    before = chance.randbytes(_SIZE)
    after = before[:900_000] + chance.randbytes(1_000) + before[900_000:]
    paths = folder / "v1.bin", folder / "v2.bin"
    for path, content in zip(paths, (before, after), strict=True):
        path.write_bytes(content)
    return paths


def test_a_new_version_comes_as_a_patch_and_the_whole_where_that_fails(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    hub, shed = new_gateway("hub"), new_gateway("shed")
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    hub.invite(shed)
    shed.ok("config", "set", "api.socket", "api.sock")
    shed.start("run", "--no-sensors")
    v1, v2 = _versions(tmp_path)
    hub.ok("file", "put", str(v1))
    wait_until(lambda: "v1.bin" in shed.ok("file", "list"), "it is offered there")
    shed.ok("file", "get", "v1.bin", "-o", str(tmp_path / "got v1"), "--pin")
    assert "% of the file" in hub.ok("file", "put", str(v2), "--base", "v1.bin")
    wait_until(lambda: len(shed.json("file", "list")) == 3, "all is offered there")
    assert "covey-patch" not in shed.ok("file", "list")
    target = tmp_path / "got v2"
    got = shed.json("file", "get", "v2.bin", "-o", str(target))
    assert target.read_bytes() == v2.read_bytes()
    assert got["saved"] > 0.99 * got["size"]
    patch = next(each for each in shed.json("file", "list") if each["name"].endswith(".covey-patch"))
    assert patch["state"] == "here"
    assert patch["size"] < _SIZE // 100
    sizes = shed.log.read_text().count(" bytes is here")
    assert sizes == 2, "the first version, and the patch"
    assert "1 file" in shed.ok("file", "verify", "v2.bin")

    other = tmp_path / "other.bin"
    other.write_bytes(random.Random(9).randbytes(_SIZE))
    assert "no patch offered" in hub.ok("file", "put", str(other), "--base", "v1.bin")

    program = Client(shed.state / "api.sock").content
    v4 = tmp_path / "v4.bin"
    v4.write_bytes(v2.read_bytes() + b"and more")
    hub.ok("file", "put", str(v4), "--base", "v2.bin")
    wait_until(lambda: len(program.ls()) == 6, "all is offered there")
    *_, last = program.fetch("v4.bin")
    assert (last["state"], last["saved"] > 0.99 * last["size"]) == ("here", True), "a program has it as a patch, too"
    assert b"".join(program.get("v4.bin")) == v4.read_bytes()

    lie = tmp_path / "lie"
    lie.write_bytes(b"no patch at all")
    hub.ok("file", "put", str(v2), "--name", "v3.bin")
    target_hash = hub.json("file", "show", "v3.bin")["hash"]
    base_hash = hub.json("file", "show", "v1.bin")["hash"]
    hub.ok("file", "put", str(lie), "--name", f"{target_hash[:32]}-{base_hash[:32]}.covey-patch")
    wait_until(lambda: lie.read_bytes() and len(shed.json("file", "list")) == 8, "the lie is offered there")
    shed.ok("file", "get", "v3.bin", "-o", str(tmp_path / "got v3"))
    assert (tmp_path / "got v3").read_bytes() == v2.read_bytes()
