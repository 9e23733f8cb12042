"""A person's first minutes with the Debian package: two fresh machines, each with systemd and a network of its own.

Everything is as the README says it, typed at terminals: `apt-get install` on both, three commands on the hub and one on
the gateway, the words compared, and a reading in a table. All that is set beside is that readings do not wait for their
batch. `test_first_minutes.py` has the same without root.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from broker_conf.mosquitto.broker import find_mosquitto
from tests.integration.cable import cable
from tests.integration.debian_boot import ENVIRONMENT, Booted, booted, missing_for_boot
from tests.integration.debian_root import DebianRoot, need
from tests.integration.terminal import Terminal
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_NEEDS = ("apt", "python3", "python3-nacl", "python3-cbor2", "python3-psutil", "python3-tomlkit", "systemd")
_WITH_CODES = (*_NEEDS, "python3-cryptography")
"""With what a pairing by code needs as well, which apt installs since the package recommends it."""

_AS_AGENT = ("setpriv", "--reuid=covey", "--regid=covey", "--init-groups")
_FIRST_READING_S = 300
_QUICK = "[telemetry]\nbatch_seconds = 1\n[sensors]\ninterval_seconds = 1\n"
_AUTHORITY = """
import sys
sys.path.insert(0, "/usr/lib/covey")
from pathlib import Path
from covey.adapters.broker.served_folder import ServedFolder
from covey.adapters.keys.storage_key import StorageKey
place, key = ServedFolder(Path("/root/broker")), StorageKey(bytes(32))
wanted = (["192.0.2.1", "relay.example.org"], ["192.0.2.1"], ["192.0.2.2"])
print(*(place.certify(names, key) for names in wanted))
"""


class Machine:
    """A machine that runs, its disk, and what a person has typed there."""

    def __init__(self, system: Booted, root: DebianRoot) -> None:
        self.system, self.root = system, root
        self.typed: list[str] = []

    def types(self, *words: str, user: tuple[str, ...] = ()) -> Terminal:
        """Type a command."""
        self.typed.append(" ".join(words))
        return Terminal([*self.system.enter, *user, *words], {**ENVIRONMENT, "TERM": "xterm"})

    def answer(self, *words: str) -> str:
        """Return what a command of the agent's user prints."""
        return self.system.run(*_AS_AGENT, "covey", *words)

    def units(self) -> dict[str, str]:
        """Return which units begin with the machine."""
        names = ("covey", "covey-collector", "covey-relay")
        return {name: self.system.run("systemctl", "is-enabled", name, code=None).strip() for name in names}

    def owners(self) -> set[int]:
        """Return whose the device's files are."""
        state = self.root.path / "var/lib/covey"
        return {path.stat().st_uid for path in (state, *state.rglob("*"))}


@pytest.fixture
def disks(tmp_path: Path, debian_package: Path) -> Iterator[tuple[DebianRoot, DebianRoot]]:
    """Two Debians, the first with mosquitto, and on both the package as a file."""
    need(missing_for_boot(_WITH_CODES))
    program, environment = find_mosquitto()
    unpacked = "LD_LIBRARY_PATH" in environment
    roots = (
        DebianRoot(tmp_path / "hub", _WITH_CODES if unpacked else (*_WITH_CODES, "mosquitto")),
        DebianRoot(tmp_path / "gateway", _WITH_CODES),
    )
    if unpacked:
        shutil.copytree(program.parents[1], roots[0].path / "usr", symlinks=True, dirs_exist_ok=True)
    for root in roots:
        shutil.copy(debian_package, root.path / "root/covey.deb")
    yield roots
    for root in roots:
        shutil.rmtree(root.path)


def _install(root: DebianRoot) -> None:
    """Install the package as a person does, and let readings not wait for their batch."""
    root.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "/root/covey.deb")
    (root.path / "etc/covey/conf.d/quick.toml").write_text(_QUICK)


def _join(hub: Machine, gateway: Machine) -> None:
    """Pair, and compare the words."""
    inviting = hub.types("covey", "invite", user=_AS_AGENT)
    code = inviting.reads(r"covey join (\S+@192\.168\.77\.1)")[1]
    joining = gateway.types("covey", "join", code, "--label", "greenhouse")
    words = [each.reads(r"verifier words: +(\S+ \S+ \S+ \S+)\s")[1] for each in (inviting, joining)]
    assert words[0] == words[1]
    inviting.reads(r"admit it\? \[y/N\]")
    inviting.types("y")
    assert (joining.ends(), inviting.ends()) == (0, 0), (joining.said, inviting.said)
    assert "greenhouse" in inviting.reads(r"joined: .*")[0]


def _values(hub: Machine, label: str) -> list[Any]:
    fleet = json.loads(hub.answer("fleet", "--json"))
    return [value for each in fleet["devices"] if each["label"] == label for value in each["values"]]


def _in_a_table(hub: Machine, label: str, file: Path) -> int:
    """Return how many of a device's readings DuckDB takes of what the hub prints."""
    file.write_text(hub.answer("vault", "readings", "--json"))
    if not file.stat().st_size:
        return 0
    counted = "SELECT count(*) FROM read_json($file) WHERE label = $label"
    found = duckdb.connect().execute(counted, {"file": str(file), "label": label}).fetchone()
    assert found is not None
    return int(found[0])


def test_three_commands_on_the_hub_and_one_on_the_gateway(disks: tuple[DebianRoot, DebianRoot], tmp_path: Path) -> None:
    """Each device is the user's whose state it is; what only root may, the units' start, root does."""
    with cable() as ends:
        need("network namespaces need CAP_NET_ADMIN" if ends is None else None)
        assert ends is not None
        with booted(disks[0], ends[0]) as first, booted(disks[1], ends[1]) as second:
            hub, gateway = Machine(first, disks[0]), Machine(second, disks[1])
            began = time.monotonic()
            try:
                for root in disks:
                    _install(root)
                for words in (("relay", "serve", "--label", "barn"), ("collect", "--new-group")):
                    served = hub.types("covey", *words)
                    assert served.ends() == 0, served.said
                _join(hub, gateway)
                wait_until(lambda: _values(hub, "greenhouse"), "the fleet's view shows a reading")
                wait_until(lambda: _in_a_table(hub, "greenhouse", tmp_path / "readings"), "a reading is in a table")
                seconds = time.monotonic() - began
                print(f"{len(hub.typed)} commands and {len(gateway.typed)}, {seconds:.1f} s")
                assert (len(hub.typed), len(gateway.typed)) == (3, 1)
                assert seconds < _FIRST_READING_S
                _is_as_it_should_be(hub, gateway)
            finally:
                for each in (hub, gateway):
                    print(each.system.run("journalctl", "--unit=covey*", "--output=cat", code=None))


def _is_as_it_should_be(hub: Machine, gateway: Machine) -> None:
    assert hub.units() == {"covey": "disabled", "covey-collector": "enabled", "covey-relay": "enabled"}
    assert gateway.units() == {"covey": "enabled", "covey-collector": "disabled", "covey-relay": "disabled"}
    assert hub.system.shown("covey-collector", "StatusText") == ["relay: up"]
    assert gateway.system.shown("covey", "StatusText") == ["relay: up"]
    labels = {member["label"] for member in json.loads(hub.answer("group", "show", "--json"))["members"]}
    assert labels == {"barn", "greenhouse"}
    found = json.loads(hub.system.run(*_AS_AGENT, "covey", "check", "--json", code=None))["findings"]
    assert [each["level"] for each in found if each["check"] == "served_relay"] == ["ok"]
    assert not [each for each in found if each["level"] == "error"]
    for each in (hub, gateway):
        assert len(each.owners()) == 1
        assert 0 not in each.owners()
    assert gateway.root.run("python3", "-I", "-c", _AUTHORITY).stdout == "True False True\n"  # Debian's cryptography
