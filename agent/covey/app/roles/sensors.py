"""The machine's own sensors as a role of the agent: sample, batch, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covey.app.roles.publisher import Publisher
from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry.batch import Value
from covey.errors import LocalError
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from covey.ports import Report

_COMPLAIN_EVERY_US = 600_000_000


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
        self._publisher = publisher
        self.interval_us = interval_us
        self._report = report
        self._next_us: int | None = None
        self._wanted = False
        self._quiet_until_us = 0

    def read_now(self) -> None:
        """Have the next turn sample, and send what that says."""
        self._wanted = True

    def turn(self, node: Node, now: Now) -> int:
        """Sample and flush what is due; return when to be called next, in monotonic microseconds."""
        if self._wanted:
            self._wanted = False
            self._take_sample(node)
            self._flush(node, now)
        if self._next_us is None or now.monotonic_us >= self._next_us:
            start = self._next_us if self._next_us is not None else now.monotonic_us
            missed = (now.monotonic_us - start) // self.interval_us
            self._next_us = start + (missed + 1) * self.interval_us
            if self._take_sample(node):
                self._flush(node, now)
        due = self._publisher.due()
        if due is not None and now.monotonic_us >= due:
            self._flush(node, now)
            due = None
        return self._next_us if due is None else min(self._next_us, due)

    def stop(self, node: Node, now: Now) -> None:
        """Publish what is open."""
        self._flush(node, now)

    def _take_sample(self, node: Node) -> bool:
        """Sample unless too much waits already; return whether the batches want to go."""
        if not any(node.groups.collector_of(group.group_id) for group in node.groups.joined()):
            return False
        if self._publisher.waiting >= MAXIMUM_BATCH_READINGS:
            return True
        full = [self._publisher.add(name, unit, None, value) for name, unit, value in self._sample()]
        return any(full)

    def _flush(self, node: Node, now: Now) -> None:
        try:
            self._publisher.flush(node)
        except LocalError as error:
            if now.monotonic_us >= self._quiet_until_us:
                self._report("warning", f"readings wait: {error}")
                self._quiet_until_us = now.monotonic_us + _COMPLAIN_EVERY_US
