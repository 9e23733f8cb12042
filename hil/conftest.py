"""Pytest options and the `board` fixture.

    pytest hil                                  a known board that is plugged in, else every emulated one
    pytest hil --device armhf                   one of unix32, armhf, wasm, microbit, or a port
    pytest hil --require-device                 what is missing fails instead of being skipped

What is skipped because a runtime is missing is listed at the end, whatever the verbosity.
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil.boards import drivers, runtimes
from hil.boards.firmware_files import written
from hil.boards.kept_files import FOLDER, KeptFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_missing: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("hil")
    group.addoption("--device", default="auto", help="auto, a port, or one of " + ", ".join(runtimes.RUNTIMES))
    group.addoption("--require-device", action="store_true", help="fail where a device is missing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.hil)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for `board` on every device."""
    if "board" in metafunc.fixturenames:
        option = metafunc.config.getoption("--device")
        metafunc.parametrize("board", drivers.device_names(option), indirect=True, scope="session")


@cache
def _open(name: str) -> drivers.Driver:
    return drivers.open_driver(name)


def missing_device(config: pytest.Config, name: str, error: Exception) -> None:
    """Fail or skip, and remember it for the end."""
    _missing[name] = str(error)
    if config.getoption("--require-device"):
        pytest.fail(f"{name}: {error}")
    pytest.skip(f"{name}: {error}")


@pytest.fixture(scope="session")
def board(request: pytest.FixtureRequest) -> Iterator[drivers.Driver]:
    """Give the driver of one device. What lies on a real one is there again afterwards."""
    name = request.param
    if name not in runtimes.RUNTIMES and not name.startswith("/dev/"):
        raise pytest.UsageError(f"--device {name}: neither a port nor one of {', '.join(runtimes.RUNTIMES)}")
    try:
        opened = _open(name)
    except runtimes.MissingError as error:
        missing_device(request.config, name, error)
        raise AssertionError from error
    if not isinstance(opened, drivers.SerialBoard):
        yield opened
        return
    kept = KeptFiles(opened, FOLDER / opened.name)
    opened.stop()
    kept.keep()
    yield opened
    opened.stop()
    kept.put_back()
    opened.mpremote("reset")


def cross_compile(architecture: str, source: Path) -> bytes:
    """Return a module's `.mpy`, with native code for an architecture if one is named."""
    with tempfile.NamedTemporaryFile(suffix=".mpy") as target:
        command = [*runtimes.mpy_cross().command, "-O3", "-s", source.stem, "-o", target.name]
        if architecture:
            command.append(f"-march={architecture}")
        subprocess.run([*command, str(source)], check=True, capture_output=True)  # noqa: S603 - the project's own tool
        return Path(target.name).read_bytes()


@pytest.fixture(scope="session")
def artefacts(request: pytest.FixtureRequest) -> Callable[[str], dict[str, bytes]]:
    """Give a function that returns the firmware as `.mpy` files for an architecture ("" for bytecode alone)."""

    @cache
    def build(architecture: str) -> dict[str, bytes]:
        built = {}
        try:
            with tempfile.TemporaryDirectory() as folder:
                for source in written(Path(folder)):
                    needs_viper = "@micropython.viper" in source.read_text()
                    if needs_viper and not architecture:
                        continue
                    built[f"{source.stem}.mpy"] = cross_compile(architecture if needs_viper else "", source)
        except runtimes.MissingError as error:
            missing_device(request.config, "mpy-cross", error)
        return built

    return build


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what did not run."""
    for name, reason in _missing.items():
        terminalreporter.write_line(f"NOT TESTED on {name}: {reason}", red=True)
