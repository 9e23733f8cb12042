"""What pip gets: an sdist built from the tree, a wheel built from that sdist, and the wheel in an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

from covey.app import shipped_files
from tests.meta.source_tree import HOLDS_PACKAGES, ROOT


@dataclass(frozen=True)
class Built:
    """The two archives, and the environment that holds the wheel and nothing else."""

    sdist: Path
    wheel: Path
    environment: Path

    @property
    def site_packages(self) -> Path:
        """Where the wheel was unpacked."""
        (found,) = self.environment.glob("lib/python*/site-packages")
        return found

    def run(self, *words: str) -> str:
        """Return what a program of the environment prints."""
        program = str(self.environment / "bin" / words[0])
        return _run(self.environment, program, *words[1:])


@pytest.fixture(scope="module")
def built(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("distribution")
    [sdist], [wheel] = archives.glob("*.tar.gz"), archives.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    install = ("-m", "pip", "--python", str(environment), "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    _run(folder, sys.executable, *install)
    return Built(sdist, wheel, environment)


def _run(folder: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_nothing_foreign_lands_at_the_top_of_site_packages(built: Built) -> None:
    ours = {path.parent.name for folder in HOLDS_PACKAGES for path in (ROOT / folder).glob("*/__init__.py")}
    assert ours == {"covey", "covey_boards", "covey_ingest", "pyspark_covey"}
    there = {path.name for path in built.site_packages.iterdir() if path.suffix != ".dist-info"}
    assert there == ours


def test_the_client_needs_the_standard_library_alone(built: Built) -> None:
    code = "from covey.client import Client; print(Client('/nowhere').answers())"
    assert built.run("python", "-I", "-W", "error", "-c", code) == "False\n"


def test_commands_find_their_files(built: Built) -> None:
    names = json.loads(built.run("covey", "system-files", "--json"))
    assert names == shipped_files.names()
    assert {"systemd/covey.service", "broker_conf/mosquitto/acl", "udev/99-covey-boards.rules"} <= {*names}
    assert built.run("covey", "system-files", "systemd/covey.service") == shipped_files.read("systemd/covey.service")
    for name in names:
        assert (built.site_packages / "covey/files" / name).read_text() == shipped_files.read(name)


def test_the_wheel_has_every_module_and_all_data(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    for folder in HOLDS_PACKAGES:
        for package in (ROOT / folder).glob("*/__init__.py"):
            for path in package.parent.rglob("*"):
                name = str(path.relative_to(ROOT / folder))
                if path.is_file() and path.suffix in {
                    ".py",
                    ".sql",
                    ".json",
                    ".typed",
                    ".properties",
                    ".html",
                    ".css",
                    ".js",
                }:
                    assert packed.get(name) == path.read_bytes(), name
    assert not [name for name in packed if name.startswith("covey/files/") and name.endswith(".py")]


def test_the_distribution_contains_licence_and_links(built: Built) -> None:
    (said,) = built.site_packages.glob("covey-*.dist-info")
    metadata = Parser().parsestr((said / "METADATA").read_text(encoding="utf-8"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert (said / "licenses/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Homepage", "Source", "Issues"}
    assert metadata.get_all("Classifier")
    for package in (ROOT / "firmware_bridge/covey_boards").glob("*/package.json"):
        assert json.loads(package.read_text())["license"] == "Apache-2.0", package


def test_the_sdist_has_all_that_is_tracked(built: Built) -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout of git")
    with tarfile.open(built.sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = {name for name in listed.stdout.splitlines() if name not in packed and (ROOT / name).exists()}
    assert not missing
