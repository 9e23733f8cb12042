"""`covey.app.checks.status`: only a machine's own interfaces say whether it is connected."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.checks.status import is_unplugged


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


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    assert not is_unplugged(tmp_path / "none")
