"""An operator has devices fetch a file, or do with it what their owners have defined, through a real broker."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_PLACE = """
summary = "put a model where the program looks for it"
argv = ["covey", "file", "get", "{{file}}", "--group={{group}}", "--force", "-o", "{target}", "--wait=1m"]
idempotent = true
memory_mib = 512
[arguments.file]
text = 64
characters = "0123456789abcdef"
[arguments.group]
text = 64
characters = "0123456789abcdef"
"""


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway]) -> list[Gateway]:
    """An operator's device, and two that obey it; the second of these lets it have nothing fetched."""
    hub, shed, barn = [new_gateway(name) for name in ("hub", "shed", "barn")]
    place = shed.state / "operations.d" / "place.toml"
    place.parent.mkdir(mode=0o700)
    place.write_text(_PLACE.format(target=shed.state / "model.bin"))
    place.chmod(0o600)
    for each in (hub, shed, barn):
        each.ok("config", "set", "operations.operators", hub.json("key", "show")["signing_key"])
    shed.ok("config", "set", "operations.commands", "fetch-file,place")
    barn.ok("config", "set", "operations.commands", "read-now")
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    for each in (shed, barn):
        hub.invite(each)
        each.start("run", "--no-sensors")
    wait_until(lambda: hub.ok("history", "log", "--json").count("obeying") == 2, "both obey")
    return [hub, shed, barn]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(random.Random(7).randbytes(1_500_000))
    return path


def test_devices_fetch_what_an_operator_puts_for_them(fleet: list[Gateway], model: Path, tmp_path: Path) -> None:
    hub, shed, barn = fleet
    done = hub.covey("file", "put", str(model), "--for", "label:shed", "--wait", "--timeout", "300")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "1 done" in done.stdout
    [entry] = shed.json("file", "list")
    assert (entry["name"], entry["state"], entry["pinned"]) == ("model.bin", "here", True)
    wait_until(lambda: barn.json("file", "list") != [], "it is offered to all")
    assert [each["state"] for each in barn.json("file", "list")] == ["offered"]
    shed.ok("file", "get", "model.bin", "-o", str(tmp_path / "opened"))
    assert (tmp_path / "opened").read_bytes() == model.read_bytes()

    placed = hub.covey("file", "put", str(model), "--name", "v2", "--for", "label:shed", "--action", "place", "--wait")
    assert placed.returncode == 0, (placed.stdout, placed.stderr)
    assert (shed.state / "model.bin").read_bytes() == model.read_bytes()

    alone = hub.covey(
        "file", "put", str(model), "--name", "for one", "--for", shed.author, "--wait", "--timeout", "300"
    )
    assert alone.returncode == 0, (alone.stdout, alone.stderr)
    shed.ok("file", "get", "for one", "-o", str(tmp_path / "of one"))
    hub.ok("file", "get", "for one", "-o", str(tmp_path / "of its author"))
    assert (tmp_path / "of one").read_bytes() == (tmp_path / "of its author").read_bytes() == model.read_bytes()
    wait_until(lambda: "for one" in barn.ok("file", "list"), "it is offered to all")
    assert "sealed for other devices" in barn.fails(
        "file", "get", "for one", "-o", str(tmp_path / "of another"), code=1
    )
    barn.ok("file", "fetch", "for one")
    assert "sealed for other devices" in barn.fails(
        "file", "get", "for one", "-o", str(tmp_path / "of another"), code=1
    )
    later = tmp_path / "later"
    later.write_bytes(model.read_bytes() + b"and a secret")
    words = ("--base", "for one", "--for", shed.author, "--wait", "--timeout", "300")
    assert "% of the file" in hub.ok("file", "put", str(later), *words)
    shed.ok("file", "get", "later", "-o", str(tmp_path / "later of one"))
    assert (tmp_path / "later of one").read_bytes() == later.read_bytes()
    here = [each["name"] for each in shed.json("file", "list") if each["state"] == "here"]
    assert any(name.endswith(".covey-patch") for name in here), "fetched as a patch"
    patch = next(each["id"] for each in barn.json("file", "list") if each["name"].endswith(".covey-patch"))
    assert "sealed for other devices" in barn.fails("file", "get", patch, "-o", str(tmp_path / "of another"), code=1)
    assert not (tmp_path / "of another").exists()
    assert "no device is to fetch the file" in hub.fails("file", "put", str(model), "--secret", code=2)


def test_a_device_that_forbids_fetching_refuses_the_order(fleet: list[Gateway], model: Path) -> None:
    hub, shed, barn = fleet
    assert "no device is to fetch the file" in hub.fails("file", "put", str(model), "--wait", code=2)
    assert "no device of the group has the label" in hub.fails(
        "file", "put", str(model), "--for", "label:attic", code=2
    )
    assert "operator" in shed.fails("file", "put", str(model), "--for", "all", code=1)
    assert hub.json("file", "list") == []
    given = hub.json("file", "put", str(model), "--for", "label:barn")
    assert (given["state"], given["order"]["devices"]) == ("here", 1)
    wait_until(
        lambda: hub.json("order", "show", given["order"]["id"])["devices"][0]["outcome"] == "refused",
        "its owner's word holds",
    )
    assert [each["state"] for each in barn.json("file", "list")] == ["offered"]
