"""A real broker, booted from `broker_conf/`, and devices on it; and which worker runs which test.

Tests differ a lot in how long they wait. With `--dist loadfile` each test goes to the next free worker, and only tests
that share a fixture stay together; the longest begin first, so that no worker is left alone with one at the end.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from broker_conf.mosquitto import Broker
from deb.__main__ import build
from deb.release import build_python
from tests import warm_covey
from tests.browser import chromium
from tests.integration.debian_root import need
from tests.integration.gateway import Gateway
from tests.integration.relay_client import RelayClient
from tests.integration.second import Second

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from playwright.sync_api import Browser
    from xdist.remote import Producer

_LONG = (
    *("conformance", "conformance_mistakes", "conformance_of_others", "mailbox", "releases", "group_commands"),
    *("release_changes", "real_faults", "installers", "content", "pairing"),
    *("self_update", "packaged_actions", "two_machines", "benches", "image", "models", "debian_package", "openapi"),
)
"""Files with tests that take more than a quarter of a minute: first those that wait, while the other parts of
`./dev test` compute, then those that compute themselves."""

_SHARES = re.compile(r'scope="module"|\b(?:browser|s3_server)\b')
"""What says in a file that its tests share a fixture."""

_LOG_CHARACTERS = 4_000
"""Of each log, its end."""

os.environ["DPKG_DEB_COMPRESSOR_LEVEL"] = "0"  # packages for one test: better compression takes six seconds for each


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files. Tests with one id are refused: of these, a worker would run only the first."""
    ids = [item.nodeid for item in items]
    if len(set(ids)) < len(ids):
        raise pytest.UsageError(f"these tests share an id: {sorted({each for each in ids if ids.count(each) > 1})}")
    places = {f"test_{name}": place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_xdist_setupnodes() -> None:
    """Have all workers share a server of warm commands."""
    warm_covey.share()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Share tests out one by one in place of whole files."""
    return _OneByOne(config, log) if config.getoption("dist") == "loadfile" else None


class _OneByOne(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares_fixtures(self.config.rootpath / file) else nodeid


@cache
def _shares_fixtures(file: Path) -> bool:
    return _SHARES.search(file.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a test that fails show what its devices said last: a wait in vain explains nothing."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.when == "call" and report.failed and folder is not None:
        for log in sorted(folder.glob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-_LOG_CHARACTERS:]))
    return report


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    yield from chromium()


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with the source archive of the tree and the wheel that is built from it, once for all workers."""
    return _built_once(tmp_path_factory, worker_id, "archives", build_python)


@pytest.fixture(scope="session")
def debian_package(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The tree's Debian package as version 0.1.0, built once for all workers; nobody changes it."""
    need(None if shutil.which("dpkg-deb") else "no dpkg-deb here")
    folder = _built_once(tmp_path_factory, worker_id, "package", lambda made: build(made, "0.1.0"))
    [package] = folder.glob("*.deb")
    return package


def _built_once(factory: pytest.TempPathFactory, worker_id: str, name: str, builds: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker to ask for it has filled; the others wait for that."""
    own = factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = factory.mktemp("made")
            builds(made)
            made.rename(folder)
    return folder


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of its own for each test."""
    with Broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def new_relay_client(broker: Broker) -> Iterator[Callable[..., RelayClient]]:
    """Make devices that have a credential on the broker; they are stopped at the end."""
    made: list[RelayClient] = []

    def make(**options: Any) -> RelayClient:
        made.append(RelayClient(broker, **options))
        return made[-1]

    yield make
    for device in made:
        device.relay.stop()


@pytest.fixture
def new_gateway(broker: Broker, tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    """Make gateways that have a credential on the broker; their agents are killed at the end."""
    made: list[Gateway] = []

    def make(name: str) -> Gateway:
        made.append(Gateway(tmp_path, name, broker))
        return made[-1]

    yield make
    for gateway in made:
        gateway.kill()


@pytest.fixture
def second(tmp_path: Path, broker: Broker) -> Iterator[Second]:
    """A second implementation of a device with an account at the broker; it is killed at the end."""
    device = Second(tmp_path, broker)
    yield device
    device.end()
