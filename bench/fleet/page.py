"""The fleet with 10,000 devices, and 100,000: `covey fleet`, and its page in Chromium. What is waited for, and used.

First paint is the browser's own figure, from the click on, while the page's process reads the vault; live is from the
moment at which a reading has landed in the vault to the moment at which the page shows it. Memory is the kernel's PSS,
of the page's process and of the agent that runs beside it, and keeps the table that page and command read. Bytes are
what the browser received, as they were compressed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.agent.size import start
from covey.app.fleet.kept_fleet import KeptFleet
from covey.limits.vault import FLEET_KEPT_DEVICES
from tests.collected_fleet import CollectedFleet

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

_DEVICES = (10_000, 100_000)
_LANDINGS = 15
_LACKING = 2
_POLL_S = 0.1
_PATIENCE_MS = 600_000
_FIRST_ROWS = 200
_FIRST_PAINT = """() => new Promise((found) => new PerformanceObserver((list) => {
  for (const each of list.getEntriesByName("first-contentful-paint")) found(each.startTime);
}).observe({ type: "paint", buffered: true }))"""


def main() -> int:
    """Measure and print; return 2 where there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        print("error: no chromium here\nhint: apt-get install chromium", file=sys.stderr)
        return _LACKING
    for count in _DEVICES:
        with TemporaryDirectory() as folder:
            fleet = CollectedFleet(Path(folder), count, rounds=1)
            _measure(fleet, program, count)
    return 0


def _measure(fleet: CollectedFleet, program: str, count: int) -> None:
    from playwright.sync_api import sync_playwright

    fleet.hub.ok("config", "set", "relay.url", "mqtt://127.0.0.1:1")  # nobody is there: the agent has nothing to do
    agent, _ = start(sys.executable, fleet.hub.state)
    try:
        print(f"{count:,} devices")
        if count >= FLEET_KEPT_DEVICES:
            _await_table(fleet)
        alone = _pss_mib(agent.pid)
        for words in ((), ("--json",), (fleet.label(77),)):
            _print_command(fleet, words)
        with sync_playwright() as playwright, _served(fleet) as (process, link):
            began = time.perf_counter()
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            received = _Received(page.context.new_cdp_session(page))
            _print_first(page, link, received)
            read_s = time.perf_counter() - began
            print(f"  from the link on until the vault is read, s          {read_s:>8.2f}", flush=True)
            _print_live(page, fleet, received)
            print(f"  the page's process, MiB PSS                          {_pss_mib(process.pid):>8.1f}")
            print(f"  the highest that it had, MiB RSS                     {_highest_mib(process.pid):>8.1f}")
            more = _pss_mib(agent.pid) - alone
            print(f"  growth of the agent meanwhile, MiB PSS               {more:>8.1f}", flush=True)
            browser.close()
    finally:
        agent.terminate()
        agent.wait()


def _await_table(fleet: CollectedFleet) -> None:
    """Wait until the agent has a complete table, and print how long it took."""
    began = time.perf_counter()
    kept = KeptFleet(fleet.folder)
    while (found := kept.look()) is None or not found.fleet.is_read:
        time.sleep(_POLL_S)
    print(f"  until the agent has a complete look, s               {time.perf_counter() - began:>8.2f}", flush=True)


def _print_command(fleet: CollectedFleet, words: tuple[str, ...]) -> None:
    """Print what `covey fleet` takes, from the start of its process to its end."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "covey.cli.main", "fleet", "--state", str(fleet.hub.state), *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    shown = f"{time.perf_counter() - began:>8.2f} / {used.ru_utime + used.ru_stime:.2f} / {used.ru_maxrss / 1024:.0f}"
    print(f"  {' '.join(('covey', 'fleet', *words)) + ', s / CPU s / highest MiB RSS':<51}{shown}", flush=True)


def _print_first(page: Page, link: str, received: _Received) -> None:
    from playwright.sync_api import expect

    began = time.perf_counter()
    page.goto(link)
    page.wait_for_selector("#devices tr a")
    rows_s = time.perf_counter() - began
    painted_ms = page.evaluate(_FIRST_PAINT)
    print(f"  first paint, s                                       {painted_ms / 1000:>8.2f}")
    print(f"  until the first devices are listed, s                {rows_s:>8.2f}")
    print(f"  received until then, KiB                             {received.take() / 1024:>8.1f}")
    expect(page.locator("#shown")).not_to_contain_text("being read", timeout=_PATIENCE_MS)


def _print_live(page: Page, fleet: CollectedFleet, received: _Received) -> None:
    from playwright.sync_api import expect

    label = fleet.label(77)
    began = time.perf_counter()
    page.get_by_label("Find").fill(label)
    expect(page.locator("#devices tr")).to_have_count(1, timeout=_PATIENCE_MS)
    print(f"  a search, s                                          {time.perf_counter() - began:>8.2f}")
    page.get_by_label("Find").fill("")
    listed = min(_FIRST_ROWS, len(fleet.authors) + 1)
    expect(page.locator("#devices tr")).to_have_count(listed, timeout=_PATIENCE_MS)
    waits = []
    place = int(page.locator("#devices tr a").nth(1).inner_text().rpartition("-")[2])
    for landing in range(_LANDINGS):
        at_us = fleet.land_one(place, "level", float(landing))
        began = time.perf_counter()
        page.wait_for_selector(f"#devices [data-at='{at_us}']")
        waits.append(time.perf_counter() - began)
        time.sleep(0.137 * (landing % 8))
    print(f"  live: a landed reading is shown, s, median / highest {median(waits):>8.2f} / {max(waits):.2f}")
    print(f"  received for each of these, KiB                      {received.take() / 1024 / _LANDINGS:>8.1f}")
    print(f"  the browser's heap, MiB                              {_heap_mib(page):>8.1f}", flush=True)


class _Received:
    """Counts what a browser receives."""

    def __init__(self, session: CDPSession) -> None:
        self._of_request: dict[str, int] = {}
        self._taken = 0
        session.on("Network.dataReceived", lambda event: self._note(event, ended=False))
        session.on("Network.loadingFinished", lambda event: self._note(event, ended=True))
        session.send("Network.enable")

    def _note(self, event: dict[str, Any], *, ended: bool) -> None:
        size, before = int(event["encodedDataLength"]), self._of_request.get(event["requestId"], 0)
        self._of_request[event["requestId"]] = max(size, before) if ended else before + size

    def take(self) -> int:
        """Return how many bytes have come since the last time."""
        total, before = sum(self._of_request.values()), self._taken
        self._taken = total
        return total - before


def _heap_mib(page: Page) -> float:
    heap: int = page.evaluate("() => performance.memory.usedJSHeapSize")
    return heap / 2**20


@contextmanager
def _served(fleet: CollectedFleet) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve the page in a process of its own, which ends with the block."""
    words = ("dashboard", "--listen", "127.0.0.1:0", "--state", str(fleet.hub.state))
    process = subprocess.Popen([sys.executable, "-m", "covey.cli.main", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def _pss_mib(pid: int) -> float:
    return _kibibytes(f"/proc/{pid}/smaps_rollup", "Pss:") / 1024


def _highest_mib(pid: int) -> float:
    return _kibibytes(f"/proc/{pid}/status", "VmHWM:") / 1024


def _kibibytes(path: str, name: str) -> int:
    lines = Path(path).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    sys.exit(main())
