"""How long a reading takes to the vault, with nothing else, and beside files that the collector takes by the broker.

Agent, broker and collector are processes of their own; a reading in each message, ten a second. The agent that measures
is also who gives the files, so its connection, its turns and the collector's are shared. One file follows the other.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.files.content import offered
from bench.groups.catch_up import percentile, times
from covey.adapters.state_folder import StateFolder
from covey.app.content.content import delete_copy, fetch_file
from covey.app.content.offering import put_file
from covey.app.device.device import open_device
from covey.errors import LocalError
from demo.device import Device
from demo.fleet import Fleet

_SIZE = 30_000_000
_READINGS = 400
_PATIENCE_S = 120.0


def main() -> None:
    """Print p50 and p99 of both, and their ratio."""
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=1, interval_seconds=60)
            agent = fleet.agents[0]
            agent.ok("config", "set", "api.socket", "api.sock")
            agent.start("run", "--no-sensors")
            original = Path(folder) / "file"
            original.write_bytes(random.Random(1).randbytes(_SIZE))
            with open_device(StateFolder.at(agent.state)) as device:
                put_file(device, device.pick_group(None), original, None, lambda _: None)
            alone = times(agent, fleet.collector, _READINGS)
            transfers = _Transfers(fleet.collector)
            beside = times(agent, fleet.collector, _READINGS)
            number = transfers.end()
        finally:
            fleet.close()
    print(f"{'a reading to the vault, ms':<42} {'p50':>8} {'p99':>8}")
    for name, found in (("alone", alone), (f"beside {number:.1f} files of {_SIZE / 1e6:.0f} MB", beside)):
        print(f"  {name:<40} {1_000 * percentile(found, 50):>8.0f} {1_000 * percentile(found, 99):>8.0f}")
    print(f"  ratio of p99 {percentile(beside, 99) / percentile(alone, 99):>45.2f}")


class _Transfers:
    """Has the collector fetch the file, let go of it and fetch it again, until it is ended."""

    def __init__(self, collector: Device) -> None:
        self._collector = collector
        self._ended = threading.Event()
        self._whole, self._come = 0, 0
        self._thread = threading.Thread(target=self._run, name="transfers")
        self._thread.start()

    def _run(self) -> None:
        with open_device(StateFolder.at(self._collector.state)) as device:
            manifest = device.pick_group(None)
            offer = offered(device, manifest, "file")
            while not self._ended.is_set():
                try:
                    fetch_file(device, manifest, offer, 1.0, self._moved)
                except LocalError:
                    continue  # it has not come in that second; it is asked for still
                self._whole, self._come = self._whole + 1, 0
                delete_copy(device, offer)

    def _moved(self, come: int) -> None:
        self._come = come

    def end(self) -> float:
        """End it; return how many files have come, the last one in part."""
        self._ended.set()
        self._thread.join(_PATIENCE_S)
        return self._whole + self._come / _SIZE


if __name__ == "__main__":
    main()
