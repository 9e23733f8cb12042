"""The machine's own sensors as a role of the agent: sample, batch, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covey.app.telemetry.publisher import Outflow, Publisher
from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry.batch import Value
from covey.ports import Report


class Sensors:
    """Samples each `interval_us`; while nobody can be sent to or the outbox is full, samples are not taken."""

    def __init__(
        self,
        sample: Callable[[], Sequence[tuple[str, str, Value]]],
        publisher: Publisher,
        interval_us: int,
        report: Report,
    ) -> None:
        self._sample = sample
        self._outflow = Outflow(publisher, report)
        self.interval_us = interval_us
        self._next_us: int | None = None
        self._wanted = False

    def read_now(self) -> None:
        """Have the next turn sample, and send what that says."""
        self._wanted = True

    def turn(self, node: Node, now: Now) -> int:
        """Sample and flush what is due; return when to be called next, in monotonic microseconds."""
        if self._wanted:
            self._wanted = False
            self._take_sample(node)
            self._outflow.flush(node, now)
        if self._next_us is None or now.monotonic_us >= self._next_us:
            start = self._next_us if self._next_us is not None else now.monotonic_us
            missed = (now.monotonic_us - start) // self.interval_us
            self._next_us = start + (missed + 1) * self.interval_us
            if self._take_sample(node):
                self._outflow.flush(node, now)
        due = self._outflow.flush_if_due(node, now)
        return self._next_us if due is None else min(self._next_us, due)

    def stop(self, node: Node, now: Now) -> None:
        """Publish what is open."""
        self._outflow.flush(node, now)

    def _take_sample(self, node: Node) -> bool:
        """Sample unless too much waits already; return whether the batches want to go."""
        if not self._outflow.wanted(node):
            return False
        if self._outflow.full:
            return True
        full = [self._outflow.add(name, unit, None, value) for name, unit, value in self._sample()]
        return any(full)
