"""`covey.app.checks.status`: only a machine's own interfaces say whether it is connected."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.checks.status import is_unplugged, troubles_of_quarantine, troubles_of_vault
from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import device_name
from tests.vault_site import Site


@pytest.mark.parametrize(
    ("interfaces", "unplugged"),
    [
        ({}, False),
        ({"lo": (False, "1")}, False),
        ({"lo": (False, "1"), "eth0": (True, "0")}, True),
        ({"lo": (False, "1"), "eth0": (True, "0"), "docker0": (False, "1")}, True),
        ({"eth0": (True, "0"), "wlan0": (True, "1")}, False),
        ({"eth0": (True, None)}, True),
    ],
)
def test_a_machine_is_unplugged_without_a_link_of_its_own(
    tmp_path: Path, interfaces: dict[str, tuple[bool, str | None]], unplugged: bool
) -> None:
    for name, (physical, carrier) in interfaces.items():
        (tmp_path / name).mkdir()
        if physical:
            (tmp_path / name / "device").mkdir()
        if carrier is not None:
            (tmp_path / name / "carrier").write_text(carrier + "\n")
    assert is_unplugged(tmp_path) is unplugged


def test_unknown_interfaces_are_not_reported_unplugged(tmp_path: Path) -> None:
    assert not is_unplugged(tmp_path / "none")


def _troubles(site: Site) -> list[str]:
    store, labels = site.gate.store, DeviceLabels(site.gate.node.groups.joined())
    quarantined = troubles_of_quarantine(store.quarantine.parties(), labels)
    return [*troubles_of_vault(store, labels, site.gate.now.wall_us), *quarantined]


def test_a_vault_that_refuses_writes_is_reported_until_it_takes_them_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert _troubles(site) == []
    site.objects.refuses = (".hxseg",)
    site.send(b"one")
    site.land()
    site.gate.wait(300)
    assert _troubles(site) == [
        "the vault takes no data for 5 min, and senders keep theirs: it refuses data: unreachable"
    ]
    site.start()
    assert len(_troubles(site)) == 1
    site.objects.refuses = ()
    site.land()
    site.turn(10)
    assert site.landed() == [b"one"]
    assert _troubles(site) == []


def test_a_device_that_used_up_its_share_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_BYTES", 2_000)
    monkeypatch.setattr("covey.adapters.sqlite.link.landing.LANDING_SHARE_BYTES", 500)
    site = Site(tmp_path)
    site.objects.refuses = (".hxseg",)
    site.send(*(bytes([number]) * 300 for number in range(8)))
    site.turn(60)
    (line,) = [each for each in _troubles(site) if "share" in each]
    assert line == f"1 device sent more than its share, and waits: {device_name(site.ann.key)} ann"
    site.objects.refuses = ()
    site.turn(60)
    site.turn(600)
    site.turn(60)
    assert not [each for each in _troubles(site) if "share" in each]


def test_quarantine_says_whose_messages_it_has(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.gate.store.transaction():
        site.gate.store.quarantine.add("malformed", b"m", 1, site.ann.key)
    name = f"{device_name(site.ann.key)} ann"
    assert _troubles(site) == [f"1 message in quarantine: covey message quarantine ({name})"]


def test_a_vaults_place_and_its_troubles_are_noted_apart(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.gate.store.transaction():
        site.gate.store.conditions.set("vault", "/srv/vault", 1)  # as `collecting.py` notes the place
    assert _troubles(site) == []
    site.objects.refuses = (".hxseg",)
    site.send(b"one")
    site.land()
    assert site.gate.store.conditions.values()["vault"][0] == "/srv/vault"
