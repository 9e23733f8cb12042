"""The agent as `bench.messages.small` drives it: blobs of 200 bytes into the outbox, until all are acknowledged.

python -m bench.messages.small_sender STATE COUNT
"""

from __future__ import annotations

import argparse
import secrets
import sys

from covey.app.device.device import Device
from covey.app.loop.relay_loop import speak_with_relay
from covey.cli.device_options import open_device
from covey.core.node import Node
from covey.core.now import Now

SIZE = 200
_COMMIT = 256
"""Messages of one commit, as an application would group what it has at hand."""
_WAITING = 4_096
"""Messages that wait in the outbox at most: more only makes it longer."""


class Source:
    """A role that submits blobs as fast as the outbox empties."""

    def __init__(self, device: Device, count: int) -> None:
        self._session = device
        self._group = device.pick_group(None).group_id
        self._contents = [secrets.token_bytes(SIZE) for _ in range(count)]

    @property
    def done(self) -> bool:
        """Whether the recipient has everything durably, as this device knows."""
        return not self._contents and self._session.store.outbox.totals()[0] == 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Submit some more in one commit."""
        room = min(_COMMIT, _WAITING - self._session.store.outbox.totals()[0])
        if not self._contents or room <= 0:
            return None
        with self._session.store.transaction():
            for content in self._contents[:room]:
                node.send_blob(self._group, content, now)
        del self._contents[:room]
        return now.monotonic_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open at the end."""


def main(state: str, count: int) -> None:
    """Run until everything is acknowledged."""
    with open_device(argparse.Namespace(state=state, config=None)) as device:
        source = Source(device, count)
        print("ready", flush=True)
        sys.stdin.readline()
        speak_with_relay(device, [source], lambda: source.done)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
