"""The agent as a benchmark drives it: readings into the outbox from a role, until the collector has landed all.

python -m bench.messages.sender STATE COUNT BATCH
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice

from bench.readings import Reading, readings
from covey.app.loop.relay_loop import speak_with_relay
from covey.app.telemetry.publisher import Publisher, device_publisher
from covey.cli.device_options import open_device
from covey.core.node import Node
from covey.core.now import Now

_TURN_READINGS = 6_000


class Source:
    """A role that publishes prepared readings as fast as the agent takes them."""

    def __init__(self, prepared: list[Reading], publisher: Publisher) -> None:
        self._prepared = iter(prepared)
        self._publisher = publisher
        self.done = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Publish some more."""
        if self.done:
            return None
        taken = 0
        for name, unit, time_us, value in islice(self._prepared, _TURN_READINGS):
            taken += 1
            if self._publisher.add(name, unit, time_us, value):
                self._publisher.flush(node)
        if taken < _TURN_READINGS:
            self._publisher.flush(node)
            self.done = True
        return now.monotonic_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open at the end."""


def main(state: str, count: int, batch: int) -> None:
    """Run until everything is landed."""
    with open_device(argparse.Namespace(state=state, config=None)) as device:
        prepared = list(readings(count))
        source = Source(prepared, device_publisher(device, batch))
        print("ready", flush=True)
        sys.stdin.readline()
        speak_with_relay(device, [source], lambda: source.done and device.store.outbox.totals()[0] == 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
