"""A real broker, booted from `broker_conf/`, and devices on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker_conf.mosquitto import Broker
from tests.browser import chromium
from tests.integration.gateway import Gateway
from tests.integration.relay_client import RelayClient
from tests.integration.second import Second

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


_LOG_CHARACTERS = 4_000
"""Of each log, its end."""


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
