"""Decide which alerts about a fleet a person receives, and when.

1. Each problem of a device is one episode: announced once when it begins and once when it ends.
2. An episode is announced after it has lasted for some time; an alarm of a series at once.
3. Missing information neither begins nor ends an episode.
4. Episodes of one kind that begin, or end, within `ALERT_PAUSE_US` share one message.
5. Nothing is announced of a silenced device; what still lasts when its silence ends is announced then.
6. A message enters each target's queue in the same commit as its episodes, and leaves it once the target has accepted
   it. So it arrives at least once, with a constant id.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from covey.limits.alerts import (
    ALERT_EPISODES,
    ALERT_MESSAGES,
    ALERT_PAUSE_US,
    ALERT_RETRY_MAXIMUM_US,
    ALERT_RETRY_US,
)


class AlertKind(StrEnum):
    """What can be wrong with a device."""

    SILENT = "silent"
    LOST = "lost"
    STALE = "stale"
    DISK = "disk"
    CLOCK = "clock"
    RELEASE = "release"
    ROLLBACK = "rollback"
    ALARM = "alarm"


class Subject(NamedTuple):
    """What an episode is about: one kind of trouble of one device (its key in hex), or of one of its series.

    Of a roll-out the series is its id, and the device the one that watches; of what did not stay installed, the action.
    """

    kind: AlertKind
    device: str
    series: str = ""


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """Something that is wrong, in words that follow the device's name; it holds at least until `holds_until_us`."""

    label: str
    what: str
    since_us: int
    holds_until_us: int = 0


@dataclass(slots=True)
class Episode:
    """A present or past problem. `ended_us`: when it ended, 0 while it lasts; kept until that is announced."""

    label: str
    what: str
    since_us: int
    holds_until_us: int
    noticed_us: int
    announced: bool = False
    ended_us: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """What one message tells: episodes of one kind that have all begun, or all ended."""

    kind: AlertKind
    ended: bool
    episodes: tuple[tuple[Subject, Episode], ...]


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """A message for people: `id` is the same however often it is sent; `devices` are keys in hex, in part."""

    id: str
    kind: str
    ended: bool
    title: str
    text: str
    at_us: int
    devices: tuple[str, ...] = ()


@dataclass(slots=True)
class TargetQueue:
    """The messages for one target, the oldest first, and the result of the last attempt."""

    waiting: list[AlertMessage] = field(default_factory=list)
    attempts: int = 0
    next_at_us: int = 0
    error: str = ""
    dropped: int = 0

    def add(self, message: AlertMessage) -> None:
        """Append a message; beyond the bound the oldest goes, and is counted."""
        self.waiting.append(message)
        while len(self.waiting) > ALERT_MESSAGES:
            del self.waiting[0]
            self.dropped += 1

    def due(self, now_us: int) -> AlertMessage | None:
        """Return the message to send now, if any."""
        wait_us = self.next_at_us - now_us
        return self.waiting[0] if self.waiting and not 0 < wait_us <= ALERT_RETRY_MAXIMUM_US else None

    def taken(self, message: AlertMessage) -> None:
        """Forget a message that its target has taken."""
        self.waiting = [each for each in self.waiting if each.id != message.id]
        self.attempts, self.next_at_us, self.error = 0, 0, ""

    def refused(self, why: str, now_us: int) -> None:
        """Note that a message was not taken, and when to send it again."""
        wait_us = ALERT_RETRY_US << min(self.attempts, 20)
        self.attempts += 1
        self.next_at_us, self.error = now_us + min(wait_us, ALERT_RETRY_MAXIMUM_US), why


@dataclass(slots=True)
class AlertBook:
    """All that alerts have to remember: the episodes, and each target's queue by its name."""

    episodes: dict[Subject, Episode] = field(default_factory=dict)
    queues: dict[str, TargetQueue] = field(default_factory=dict)
    number: int = 0
    """Of the messages so far."""
    announced_us: dict[str, int] = field(default_factory=dict)
    """When a kind's last message was made, by the kind and whether it told of ends."""

    def look(
        self,
        findings: Iterable[tuple[Subject, AlertFinding | None]],
        devices: Container[str],
        now_us: int,
        settle_us: int,
        silenced: Container[str] = (),
    ) -> list[Notice]:
        """Accept findings, and return the alerts to send now.

        Args:
            findings: problems, and None for what is well; unknown conditions are left out. Of two findings for one
            device, such as for two disks, the problem counts.
            devices: the keys of all devices of the fleet, in hex.
            now_us: by the wall clock.
            settle_us: how long a problem has to last before it is announced.
            silenced: the keys of devices of which nothing is announced now, in hex.
        """
        well, wrong = set[Subject](), set[Subject]()
        for subject, finding in findings:
            if finding is not None:
                self._is_wrong(subject, finding, now_us)
            if subject in self.episodes:
                (well if finding is None else wrong).add(subject)
        for subject in [*self.episodes]:
            gone = subject.device not in devices
            if gone or (subject in well and subject not in wrong):
                self._is_well(subject, now_us, gone=gone)
        begun = [
            (subject, each)
            for subject, each in self.episodes.items()
            if subject.device not in silenced
            and not each.announced
            and (subject.kind is AlertKind.ALARM or not 0 <= now_us - each.noticed_us < settle_us)
        ]
        ended = [
            (subject, each)
            for subject, each in self.episodes.items()
            if subject.device not in silenced and each.announced and each.ended_us
        ]
        return [*self._notices(begun, now_us, ended=False), *self._notices(ended, now_us, ended=True)]

    def _is_wrong(self, subject: Subject, finding: AlertFinding, now_us: int) -> None:
        known = self.episodes.get(subject)
        if known is None and len(self.episodes) < ALERT_EPISODES:
            self.episodes[subject] = Episode(
                finding.label, finding.what, finding.since_us, finding.holds_until_us, now_us
            )
        elif known is not None:
            known.ended_us = 0
            known.holds_until_us = max(known.holds_until_us, finding.holds_until_us)

    def _is_well(self, subject: Subject, now_us: int, *, gone: bool) -> None:
        episode = self.episodes[subject]
        if not episode.announced:
            del self.episodes[subject]
        elif not episode.ended_us and (gone or now_us >= episode.holds_until_us):
            episode.ended_us = now_us

    def _notices(self, found: Iterable[tuple[Subject, Episode]], now_us: int, *, ended: bool) -> list[Notice]:
        by_kind: dict[AlertKind, list[tuple[Subject, Episode]]] = {}
        for subject, episode in found:
            by_kind.setdefault(subject.kind, []).append((subject, episode))
        notices = []
        for kind, episodes in by_kind.items():
            name = f"{kind}{' ended' if ended else ''}"
            if 0 <= now_us - self.announced_us.get(name, -ALERT_PAUSE_US) < ALERT_PAUSE_US:
                continue
            self.announced_us[name] = now_us
            notices.append(Notice(kind, ended, tuple(episodes)))
            for subject, episode in episodes:
                episode.announced = True
                if ended:
                    del self.episodes[subject]
        return notices

    def queue(self, target: str) -> TargetQueue:
        """Return a target's queue."""
        return self.queues.setdefault(target, TargetQueue())

    def enqueue(self, message: AlertMessage, targets: Iterable[str]) -> None:
        """Put a message into the queue of each target, and drop former targets."""
        self.queues = {name: self.queue(name) for name in targets}
        for queue in self.queues.values():
            queue.add(message)
