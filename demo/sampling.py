"""Steps of both demos: sample while processes are killed, deliver everything, show progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.errors import TransientError
from demo.screen import Progress

if TYPE_CHECKING:
    from demo.chaos import Chaos
    from demo.fleet import Fleet
    from demo.screen import Screen

STEP_SECONDS = 0.25
_DELIVER_SECONDS = 180
_BEGIN_SECONDS = 120
"""Seconds until each agent must have published something; a small or busy machine needs most of them."""


class Watch:
    """Shows how far a fleet's readings are; `rows` counts those in the table, where somebody fills one meanwhile."""

    def __init__(self, fleet: Fleet, screen: Screen, rows: Callable[[], int] | None = None) -> None:
        self._fleet, self._screen, self._rows = fleet, screen, rows

    def progress(self) -> Progress:
        """Return how far they are."""
        fleet = self._fleet
        ledgers = [member.ledger() for member in fleet.members]
        return Progress(
            agents=len(fleet.agents),
            published=sum(ledger.published for ledger in ledgers),
            queued=sum(ledger.queued_messages for ledger in ledgers),
            relayed_bytes=sum(device.wire_bytes() for device in fleet.agents),
            landed_messages=fleet.collector.ledger().landed_messages,
            in_table=self._rows() if self._rows else None,
        )

    def show(self, what: str) -> Progress:
        """Show how far they are, wait a moment, and return it."""
        progress = self.progress()
        self._screen.show(progress, what)
        time.sleep(STEP_SECONDS)
        return progress

    def sample(self, chaos: Chaos, seconds: float) -> None:
        """Let the agents sample for so long, and longer where not everybody has been killed and is back.

        The time counts from when each of them has published something.

        Raises:
            TransientError: an agent does not.
        """
        deadline = time.monotonic() + _BEGIN_SECONDS
        while silent := [each.name for each in self._fleet.agents if not each.ledger().published]:
            if time.monotonic() > deadline:
                raise TransientError(f"{silent[0]} publishes nothing", hint=f"see {self._fleet.folder}/{silent[0]}.log")
            self.show("the agents begin")
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < seconds or not chaos.done:
            line = chaos.advance(elapsed)
            if line:
                self._screen.say(line)
            self.show(f"{max(0, seconds - elapsed):.0f} s left")

    def deliver(self) -> None:
        """Wait until everything is in the vault.

        Raises:
            TransientError: that took too long.
        """
        deadline = time.monotonic() + _DELIVER_SECONDS
        while time.monotonic() < deadline:
            if not self.show("delivering").queued and not self._fleet.collector.ledger().landing_bytes:
                return
        raise TransientError("not everything was delivered in time", hint=f"the logs are in {self._fleet.folder}")
