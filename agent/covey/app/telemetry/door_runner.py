"""Run one door: send landed readings batch by batch, and remember what was sent.

1. Commit, then release: a batch is planned in one commit, sent, and completed in the next.
2. Nodes of the vault take turns, so that the backlog of one does not delay another.
3. Unreadable messages are waited for, then skipped with a record; a batch that a receiver refuses permanently is
   divided, until one message alone is skipped with a record.
4. The vault's store, or the receiver, may be away indefinitely.
5. Where the door imports late readings (`door_history.py`), the commit that completes a batch adds it to hours.
   Summaries count there alone; a door sends readings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.app.telemetry.landed_batches import Batch, LandedBatches
from covey.app.wording import count
from covey.core.ids import DeviceKey, printable
from covey.core.telemetry.door_hours import hours_of
from covey.core.telemetry.doors import DoorBatch, DoorGap, KnownDevice, LandedPosition, Plan, batch_id
from covey.core.telemetry.drops import MEANINGS, Drop
from covey.errors import CoveyError, DoorError, StorageError
from covey.limits.doors import (
    DOOR_PATIENCE_US,
    DOOR_REFUSALS,
    DOOR_RETRY_MAXIMUM_SECONDS,
    DOOR_RETRY_SECONDS,
    DOOR_SURVEY_SECONDS,
)

if TYPE_CHECKING:
    from covey.adapters.doors.kinds import Door
    from covey.adapters.sqlite.door_file import DoorFile
    from covey.config.doors import DoorEntry


_LOST = {Drop.TIME, Drop.SERIES, Drop.REFUSED}
"""Drops that are also noted as a gap; a door that carries no text is no gap."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look at the device gives a door: its vault, the nodes there, and what devices are called."""

    landed: LandedBatches
    nodes: tuple[str, ...]
    devices: dict[DeviceKey, KnownDevice]


@dataclass(slots=True)
class _Trouble:
    """What does not work just now: since when by the monotonic clock, and how often it was tried."""

    attempts: int = 0
    refusals: int = 0
    line: str = ""


@dataclass(slots=True)
class DoorRunner:
    """Sends on for one door. `turn` does what is due, and is called again after the seconds that it returns."""

    entry: DoorEntry
    door: Door
    file: DoorFile
    look: Callable[[], Survey]
    log: Callable[[str], None]
    wall_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    keeps_hours: bool = False
    _survey: Survey | None = None
    _surveyed: float = 0.0
    _batch: Batch | None = None
    _next_node: int = 0
    _behind: int | None = None
    _waits_since_us: dict[str, int] = field(default_factory=dict)
    _trouble: _Trouble = field(default_factory=_Trouble)

    def turn(self) -> float:
        """Send a batch, if there is one."""
        try:
            survey = self._surveyed_now()
            if self._batch is None:
                self._batch = self._planned(survey) or self._following(survey)
            if self._batch is None:
                survey.landed.forget()
                self._note_behind(survey)
                self.door.idle()
                return self.entry.common.interval_seconds
            return self._send(self._batch, survey)
        except DoorError as error:
            return self._not_taken(error)
        except CoveyError as error:
            self._survey = None  # what cannot be read now may lie elsewhere, or under other keys
            return self._wait(str(error))

    def close(self) -> None:
        """Release file and receiver."""
        self.door.close()
        self.file.close()

    def _surveyed_now(self) -> Survey:
        now = time.monotonic()
        if self._survey is None or now - self._surveyed >= DOOR_SURVEY_SECONDS:
            self._survey, self._surveyed = self.look(), now
            if self.file.state(self.entry.name) is None:
                begins_new = self.entry.common.start == "new"
                nodes = self._survey.nodes if begins_new else ()
                places = {node: self._survey.landed.last(node) for node in nodes}
                self.file.begin(self.entry.name, places, self.wall_us())
            if self.keeps_hours:
                self.file.hours.begin(self.entry.name, self.wall_us())
            self.door.note_devices(self._survey.devices)
        return self._survey

    def _planned(self, survey: Survey) -> Batch | None:
        plan = self.file.plan(self.entry.name)
        if plan is None:
            return None
        found = survey.landed.planned(plan) or DoorGap(plan.node, plan.first.number, plan.end.number, "missing")
        if isinstance(found, DoorGap) and self._gives_up(found):
            self._pass_over(found, max(LandedPosition(found.last + 1), plan.end))
        return found if isinstance(found, Batch) else None

    def _following(self, survey: Survey) -> Batch | None:
        if self.file.plan(self.entry.name) is not None:
            return None
        for place in range(len(survey.nodes)):
            node = survey.nodes[(self._next_node + place) % len(survey.nodes)]
            found = survey.landed.next(node, self.file.place(self.entry.name, node))
            while isinstance(found, DoorGap) and self._gives_up(found):
                self._pass_over(found, LandedPosition(found.last + 1))
                found = survey.landed.next(node, self.file.place(self.entry.name, node))
            if isinstance(found, Batch):
                self._next_node += place + 1
                self._waits_since_us.pop(node, None)
                if found.messages:
                    self.file.keep(self.entry.name, found.plan)
                    self._note_behind(survey)
                return found
        return None

    def _gives_up(self, gap: DoorGap) -> bool:
        """Return whether a gap was waited for long enough; adjacent following ones wait no longer."""
        now_us = int(time.monotonic() * 1e6)
        since_us = self._waits_since_us.setdefault(gap.node, now_us)
        if since_us == now_us:
            self.log(f"{self.entry.name}: waiting for segments {gap.first}-{gap.last} of {gap.node[:8]}: {gap.reason}")
            self._survey = None
        return now_us - since_us >= DOOR_PATIENCE_US

    def _pass_over(self, gap: DoorGap, end: LandedPosition) -> None:
        self.log(f"{self.entry.name}: skipping segments {gap.first}-{gap.last} of {gap.node[:8]}: {gap.reason}")
        self.file.passed(self.entry.name, gap, end, self.wall_us())

    def _send(self, batch: Batch, survey: Survey) -> float:
        passed = batch.passed
        dropped: Mapping[Drop, int] = {}
        messages = tuple(each for each in batch.messages if not each.windows)
        sent = DoorBatch(
            batch_id(self.entry.name, messages),
            self.entry.name,
            self.wall_us(),
            int(self.entry.common.backlog_seconds * 1e6),
            messages,
            {key: each.label for key, each in survey.devices.items()},
        )
        if messages:
            dropped = self.door.send(sent)
            if lost := [f"{count(dropped[each], 'reading')} {MEANINGS[each]}" for each in dropped if each in _LOST]:
                number = batch.plan.first.number
                passed += (DoorGap(batch.plan.node, number, number, ", ".join(lost)),)
        kept_away = sum(number for reason, number in dropped.items() if reason is not Drop.CUT)
        readings = sent.readings - kept_away
        now_us = self.wall_us()
        hours = hours_of(sent, batch.messages) if self.keeps_hours else ()
        self.file.taken(self.entry.name, batch.plan, passed, len(messages), readings, now_us, dropped, hours)
        self._batch = None
        if self._trouble.line:
            self.log(f"{self.entry.name}: sending again")
        self._trouble = _Trouble()
        return 0.0

    def _not_taken(self, error: DoorError) -> float:
        batch = self._batch
        if self._survey is not None:
            with suppress(StorageError):  # the receiver's failure is what is told
                self._note_behind(self._survey, landed_meanwhile=True)
        if batch is None or not error.refused:
            return self._wait(str(error), error.retry_after_s)
        if len(batch.messages) > 1:
            self._divide(batch)
            return self._wait(str(error), at_most_s=DOOR_RETRY_SECONDS)
        self._trouble.refusals += 1
        if self._trouble.refusals >= DOOR_REFUSALS:
            number = batch.ends[0].number
            gap = DoorGap(batch.plan.node, number, number, f"a message: {error}")
            self.log(f"{self.entry.name}: skipping message {batch.messages[0].id}: {printable(str(error))}")
            self.file.taken(self.entry.name, batch.plan, (*batch.passed, gap), 0, 0, self.wall_us())
            self._batch, self._trouble = None, _Trouble()
        return self._wait(str(error))

    def _divide(self, batch: Batch) -> None:
        half = Plan(batch.plan.node, batch.plan.first, batch.ends[len(batch.messages) // 2 - 1])
        self.file.keep(self.entry.name, half)
        self._batch = None

    def _wait(self, why: str, asked_s: float = 0.0, at_most_s: float = DOOR_RETRY_MAXIMUM_SECONDS) -> float:
        wait_s = min(DOOR_RETRY_SECONDS * (1 << min(self._trouble.attempts, 20)), at_most_s)
        self._trouble.attempts += 1
        if why != self._trouble.line:
            self.log(f"{self.entry.name}: {printable(why)}")
            self._trouble.line = why
        self.file.failed(self.entry.name, why, self.wall_us())
        return min(max(wait_s, asked_s), DOOR_RETRY_MAXIMUM_SECONDS)

    def _note_behind(self, survey: Survey, *, landed_meanwhile: bool = False) -> None:
        last = survey.landed.last if landed_meanwhile else survey.landed.last_known
        places = ((node, self.file.place(self.entry.name, node)) for node in survey.nodes)
        behind = sum(max(0, last(node) - place.number + 1) for node, place in places)
        if behind != self._behind:
            self.file.note_behind(self.entry.name, behind)
            self._behind = behind
