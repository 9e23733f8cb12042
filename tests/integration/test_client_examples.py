"""The page of examples for programs, docs/how-to/client.md: each is run as it stands, beside real agents.

The one thing that is put in its place is the socket: `Client()` means the packaged agent's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.client import Client
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_PAGE = (Path(__file__).parents[2] / "docs/how-to/client.md").read_text()
_EXAMPLES = dict(re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL))

Site = tuple[Gateway, Gateway]


@pytest.fixture
def site(new_gateway: Callable[[str], Gateway]) -> Site:
    """Two agents of one group, which obey the first: `hub`, which collects, and `shed`."""
    hub, shed = new_gateway("hub"), new_gateway("shed")
    key = hub.json("key", "show")["signing_key"]
    for each in (hub, shed):
        each.ok("config", "set", "operations.operators", key)
        each.ok("config", "set", "api.socket", "api.sock")
    hub.ok("group", "create", "--capability", "collector")
    hub.start("collect", "--no-sensors")
    hub.invite(shed)
    shed.start("run", "--no-sensors")
    for each in (hub, shed):
        wait_until(lambda each=each: each.json("status")["relay"]["state"] == "up", "the agents run")
    wait_until(lambda: len(hub.json("group", "members")) == 2, "both are in")
    return hub, shed


@contextmanager
def _program(example: str, gateway: Gateway) -> Iterator[Callable[[], str]]:
    """Run an example beside an agent, and give what it has printed so far."""
    code = re.sub(r"Client\(\)", f"Client({str(gateway.state / 'api.sock')!r})", _EXAMPLES[example])
    printed = gateway.state.with_name("printed")
    with printed.open("wb") as output:
        running = subprocess.Popen([sys.executable, "-u", "-c", code], stdout=output, stderr=subprocess.STDOUT)
    try:
        yield printed.read_text
    finally:
        running.kill()
        running.wait()


def _says(printed: Callable[[], str], said: str) -> None:
    wait_until(lambda: said in printed() or "Traceback" in printed(), said)
    assert printed().endswith(said), printed()
    assert printed().count("\n") == 1


def _prints(example: str, gateway: Gateway, said: str) -> None:
    with _program(example, gateway) as printed:
        wait_until(lambda: said in printed() or "Traceback" in printed())
        assert said in printed(), printed()


def test_each_example_has_ten_lines_at_most_and_is_run() -> None:
    run = Path(__file__).read_text()
    for title, code in _EXAMPLES.items():
        assert len([line for line in code.splitlines() if line.strip()]) <= 10, title
        assert f'"{title}"' in run, title
    assert len(_EXAMPLES) == _PAGE.count("```python") == _PAGE.count("\n## ")


def test_the_examples_that_send_run_as_printed(site: Site) -> None:
    hub, shed = site
    _prints("Publish a reading", shed, "1 queued")
    before = shed.counters()["published_readings"]
    _prints("Publish exactly once over a crash of your program", shed, "once")
    assert shed.counters()["published_readings"] == before + 1
    _prints("Send to the others", hub, "goes to 1")
    _prints("Send to online devices only", shed, "heard by at most 1")
    _prints("Give the others a file", hub, "map.txt here\na map of the valley")
    wait_until(lambda: "map.txt" in shed.ok("file", "list"))
    _prints("Is it well?", shed, "well")
    _prints("With asyncio: several things at once", shed, "1 group, # EOF")


def test_the_examples_that_receive_run_as_printed(site: Site) -> None:
    hub, shed = site
    with _program("Receive, store, then delete", shed) as printed:
        hub.ok("message", "send", "--text", "good morning")
        _says(printed, " says good morning\n")
        wait_until(lambda: not [*Client(shed.state / "api.sock").inbox()], "it is let go")
    with _program("With asyncio: publish while you listen", shed) as printed:
        before = shed.counters().get("published_readings", 0)
        hub.ok("message", "send", "--text", "good evening")
        _says(printed, "heard good evening\n")
        assert shed.counters()["published_readings"] == before + 1
    with _program("Follow what happens", shed) as printed:
        hub.ok("history", "post", "pump 3 is loud")
        _says(printed, " wrote pump 3 is loud\n")
    _prints("Read a group's history", shed, " wrote pump 3 is loud\n")


def test_the_examples_for_settings_run_as_printed(site: Site) -> None:
    hub, shed = site
    with _program("A setting of your program's own", shed) as printed:
        hub.ok("setting", "set", "app.pump.litres", "12", "--for", "label:shed")
        _says(printed, "app.pump.litres is 12\n")
        wait_until(lambda: hub.json("setting", "diff", "app.pump.litres", "--all", "--for", "label:shed")[0]["agrees"])
