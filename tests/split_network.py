"""Devices, their time, and a relay that loses, repeats and reorders; two sides may not hear each other."""

from __future__ import annotations

import random
from collections.abc import Callable

from covey.core.now import Now
from covey.core.wire.topics import inbox_topic
from tests.fleet import Device

STEP_S = 0.5


class SplitNetwork:
    """Each of `devices` hears those on its side alone: those in `apart`, or the others."""

    def __init__(self, devices: list[Device], chance: random.Random, loss: float) -> None:
        self.devices = devices
        self.apart: set[Device] = set()
        self.sent = 0
        """Sequenced envelopes: messages, each time that they went; no acknowledgements."""
        self._chance = chance
        self._odds = (loss, 1, loss)

    @property
    def now(self) -> Now:
        """The clock of all."""
        return self.devices[0].now

    def step(self) -> None:
        """Let time go on, and everybody speak."""
        sent = []
        for device in self.devices:
            device.wait(STEP_S)
            device.maintain()
            sent += [(device in self.apart, outgoing) for outgoing in device.sends()]
        if self._odds[0]:
            self._chance.shuffle(sent)
        self.sent += sum(outgoing.entry is not None for _, outgoing in sent)
        by_topic = {inbox_topic(device.key): device for device in self.devices}
        for side, outgoing in sent:
            receiver = by_topic.get(outgoing.topic)
            if receiver is not None and side == (receiver in self.apart):
                for _ in range(self._chance.choices((0, 1, 2), self._odds)[0]):
                    receiver.receive(outgoing.envelope)

    def run(self, until: Callable[[], bool], steps: int = 4_000) -> None:
        """Go on until a condition holds.

        Raises:
            AssertionError: it never did.
        """
        for _ in range(steps):
            if until():
                return
            self.step()
        raise AssertionError(
            [
                (device.name, each.version, each.hash.hex()[:8], [member.name for member in each.members])
                for device in self.devices
                for each in device.node.groups.joined()
            ]
        )
