"""`covey.adapters.sensors.packages`: what dpkg and opkg have installed, read once for each change."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.sensors.packages import InstalledPackages, installed

_STATUS = """\
Package: openssl
Status: install ok installed
Architecture: amd64
Version: 3.0.16-1~deb12u1
Description: Secure Sockets Layer toolkit
 Package: no-field
 Version: 9

Package: libc6
Status: hold ok installed
Architecture: amd64
Version: 2.36-9

Package: libc6
Status: install ok installed
Architecture: armhf
Version: 2.36-8

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: half
Status: install reinstreq half-installed
Architecture: amd64
Version: 1
"""


def test_installed_packages_have_their_names_and_versions() -> None:
    assert installed(_STATUS.splitlines(keepends=True)) == {
        "openssl": "3.0.16-1~deb12u1",
        "libc6": "2.36-9",
        "libc6:armhf": "2.36-8",
        "tzdata": "2025b",
    }


def test_a_file_is_read_once_for_each_change(tmp_path: Path) -> None:
    path = tmp_path / "status"
    packages = InstalledPackages([tmp_path / "nothing", path])
    assert packages.changed() is None
    path.write_text(_STATUS)
    assert len(packages.changed() or {}) == 4
    assert packages.changed() is None
    path.write_text(_STATUS.replace("2025b", "2025c-1"))
    assert (packages.changed() or {})["tzdata"] == "2025c-1"
    path.write_bytes(b"\xff\0 no status")
    assert packages.changed() is None
    path.unlink()
    assert packages.changed() is None
