"""Find conditions of a fleet that need an alert, and describe them (`core/alerts.py` decides when to send).

While this device listens to nobody, and for some time afterwards, nobody's silence and no value's age is known: the
one alert is then that it listens to nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from covey.app.fleet.devices import ASLEEP, HERE, SELF
from covey.app.fleet.fleet import local_time
from covey.app.fleet.troubles import lost_in_words
from covey.app.telemetry.newest_readings import reports_version
from covey.app.wording import count, duration
from covey.core.alerts import AlertFinding, AlertKind, AlertMessage, Episode, Notice, Subject
from covey.core.ids import printable
from covey.limits.alerts import ALERT_NAMED, ALERT_PAUSE_US

if TYPE_CHECKING:
    from covey.app.fleet.documents import Fleet, FleetDevice, FleetValue
    from covey.app.fleet.fleet import FleetKeys
    from covey.config.schema import AlertsConfig

_MINUTE_US = 60_000_000
_LOST_FOR_US = 86_400_000_000
"""How long after its last record of loss a device counts as one that has lost something."""

_CHANGED_FOR_US = 3_600_000_000
"""How long a change that is an alarm counts: nothing ends it."""

_DISK_WELL = 0.02
"""So much less of a disk has to be in use for it to be well again."""

_MANY = 10
"""Silent devices that, where they are most of the fleet, speak of the relay rather than of themselves."""

_TITLES = {
    AlertKind.SILENT: ("silent", "back"),
    AlertKind.LOST: ("lost readings", "no further losses"),
    AlertKind.STALE: ("stale values", "measuring again"),
    AlertKind.DISK: ("full disk", "free disk space again"),
    AlertKind.CLOCK: ("clock not synchronised", "clock synchronised again"),
    AlertKind.RELEASE: ("stopped", "no longer stopped"),
    AlertKind.ROLLBACK: ("rolled back", "working again"),
    AlertKind.ALARM: ("alarm", "no longer in alarm"),
}
"""What a message is about, where it has begun and where it has ended."""

Findings = Iterator[tuple[Subject, AlertFinding | None]]


def findings_of(
    fleet: Fleet,
    devices: Iterable[FleetDevice],
    config: AlertsConfig,
    *,
    own: str,
    settled: bool,
    known: Collection[Subject] = (),
) -> Findings:
    """Yield what is wrong, and as None what is well; what is not known is left out.

    Args:
        fleet: as it was looked at.
        devices: of the fleet, with values.
        config: the thresholds.
        own: this device's key, in hex.
        settled: whether this device has listened for long enough to judge others' silence.
        known: what was wrong before: of roll-outs what is not named any more is well.
    """
    roll_outs = dict.fromkeys(each for each in known if each.kind in {AlertKind.RELEASE, AlertKind.ROLLBACK})
    yield from (roll_outs | (dict(_roll_outs(fleet, own)) if config.releases else {})).items()
    for device in devices:
        yield from _silence(device, fleet, config, settled=settled)
        if config.lost:
            yield _losses(device, fleet.at_us)
        for value in device.values:
            yield from _value(device, value, fleet.at_us, config, known, settled=settled)
        if config.clock and device.values:
            unset = max(device.values, key=lambda each: each.at_us).clock == "unsynchronised"
            finding = AlertFinding(device.label, "has a clock that is not synchronised", fleet.at_us)
            yield Subject(AlertKind.CLOCK, device.key), finding if unset else None


def _roll_outs(fleet: Fleet, own: str) -> Findings:
    for each in fleet.releases:
        what = (
            f"({each.what}) has stopped in wave {each.wave}: {each.failed} failed, {each.silent} silent of {each.given}"
        )
        finding = AlertFinding(f"release {each.id[:8]}", what, fleet.at_us)
        yield Subject(AlertKind.RELEASE, own, each.id), finding if each.state == "stopped" else None
    for one in fleet.rollbacks:
        what = f"{'rolled back' if one.back else 'could not roll back'} after {one.action}: {one.why}"
        yield Subject(AlertKind.ROLLBACK, one.device, one.action), AlertFinding(one.label, what, one.at_us)


def _silence(device: FleetDevice, fleet: Fleet, config: AlertsConfig, *, settled: bool) -> Findings:
    subject, since_us = Subject(AlertKind.SILENT, device.key), device.presence_since_us
    if not config.silent_minutes:
        return
    if device.presence == SELF:
        what = "receives nothing: its agent is not running or has no relay connection (run 'covey check' on it)"
        yield subject, None if fleet.listens else AlertFinding(device.label, what, fleet.at_us)
    elif device.presence in {HERE, ASLEEP, "stopped"}:
        yield subject, None
    elif device.presence == "unknown" or since_us is None or not settled:
        return
    elif fleet.at_us - since_us >= config.silent_minutes * _MINUTE_US:
        yield subject, AlertFinding(device.label, "is silent", since_us)


def _losses(device: FleetDevice, now_us: int) -> tuple[Subject, AlertFinding | None]:
    subject = Subject(AlertKind.LOST, device.key)
    if device.lost_at_us is None or now_us - device.lost_at_us >= _LOST_FOR_US:
        return subject, None
    until_us = device.lost_at_us + _LOST_FOR_US
    return subject, AlertFinding(device.label, f"has lost {lost_in_words(device)}", device.lost_at_us, until_us)


def _value(
    device: FleetDevice,
    value: FleetValue,
    now_us: int,
    config: AlertsConfig,
    known: Collection[Subject],
    *,
    settled: bool,
) -> Findings:
    if config.stale_minutes and value.clock != "unsynchronised" and not reports_version(value.name):
        subject = Subject(AlertKind.STALE, device.key, f"{value.name} {value.unit}".rstrip())
        if now_us - value.at_us < config.stale_minutes * _MINUTE_US:
            yield subject, None
        elif settled and device.presence in {HERE, SELF}:
            what = f"has had no value of {printable(value.name, 64)}"
            yield subject, AlertFinding(device.label, what, value.at_us)
    if config.alarms and value.alarm and value.alarm_at_us is not None:
        yield _alarm(device, value, now_us, known)
    if config.disk_percent and value.name.endswith("disk/use") and isinstance(value.value, float | int):
        disk, full = Subject(AlertKind.DISK, device.key), config.disk_percent / 100
        if value.value >= full:
            yield disk, AlertFinding(device.label, f"has a disk that is {value.value:.0%} full", value.at_us)
        elif value.value < full - _DISK_WELL:
            yield disk, None


def _alarm(
    device: FleetDevice, value: FleetValue, now_us: int, known: Collection[Subject]
) -> tuple[Subject, AlertFinding | None]:
    """Return whether a series is in alarm: until one ends it, a change for a while.

    One that has begun and ended since the last look is told as well.
    """
    subject, at_us = Subject(AlertKind.ALARM, device.key, f"{value.name} {value.unit}".rstrip()), value.alarm_at_us or 0
    if value.alarm == "ended" and (subject in known or now_us - at_us >= ALERT_PAUSE_US):
        return subject, None
    if value.alarm == "changed" and now_us - at_us >= _CHANGED_FOR_US:
        return subject, None
    shown = f"{value.value:.9g}" if isinstance(value.value, float) else printable(str(value.value), 40)
    what = f"has an alarm of {printable(value.name, 64)}, now {shown} {printable(value.unit, 32)}".rstrip()
    return subject, AlertFinding(device.label, what, at_us, at_us + _CHANGED_FOR_US if value.alarm == "changed" else 0)


def message_of(notice: Notice, devices: FleetKeys | Collection[str], at_us: int, number: int) -> AlertMessage:
    """Return a notice in words.

    Args:
        notice: what is to be told.
        devices: of the fleet.
        at_us: now, by the wall clock.
        number: of the message, another one for each.
    """
    named = tuple(dict.fromkeys(subject.device for subject, _ in notice.episodes))
    of = count(len(notice.episodes), "release") if notice.kind is AlertKind.RELEASE else count(len(named), "device")
    title = f"Covey: {of}: {_TITLES[notice.kind][notice.ended]}"
    text = "\n".join(_lines(notice, devices, at_us, len(named)))
    return AlertMessage(f"{at_us:x}-{number}", notice.kind, notice.ended, title, text, at_us, named[:ALERT_NAMED])


def _lines(notice: Notice, devices: FleetKeys | Collection[str], at_us: int, named: int) -> Iterator[str]:
    is_most = notice.kind is AlertKind.SILENT and named >= _MANY and 2 * named > len(devices)
    if is_most and not notice.ended:
        since = local_time(min(each.since_us for _, each in notice.episodes), at_us)
        yield f"{named} of {len(devices)} devices are silent since {since}."
        yield "That is most of the fleet: check the relay and its network first (covey check)."
    elif is_most:
        yield f"{named} of {len(devices)} devices are back."
    for subject, episode in notice.episodes[:ALERT_NAMED]:
        yield _line(subject, episode, at_us, ended=notice.ended, is_member=subject.device in devices)
    if len(notice.episodes) > ALERT_NAMED:
        yield f"and {len(notice.episodes) - ALERT_NAMED} more: covey fleet"


def _line(subject: Subject, episode: Episode, now_us: int, *, ended: bool, is_member: bool) -> str:
    name = printable(episode.label, 64) or subject.device[:16]
    if not ended:
        return f"{name} {episode.what} since {local_time(episode.since_us, now_us)}"
    lasted = duration(max(0, episode.ended_us - episode.since_us) // 1_000_000)
    if not is_member:
        return f"{name} is no longer in the fleet"
    ends = {
        AlertKind.SILENT: f"is back after {lasted}",
        AlertKind.LOST: f"has had no further losses for {duration(_LOST_FOR_US // 1_000_000)}",
        AlertKind.STALE: f"has a value of {printable(subject.series, 64)} again, after {lasted}",
        AlertKind.DISK: f"has free disk space again, after {lasted}",
        AlertKind.CLOCK: f"has a synchronised clock again, after {lasted}",
        AlertKind.RELEASE: f"is no longer stopped, after {lasted}",
        AlertKind.ALARM: f"no longer has an alarm of {printable(subject.series, 64)}, after {lasted}",
        AlertKind.ROLLBACK: f"works again with {printable(subject.series, 64)}, after {lasted}",
    }
    return f"{name} {ends[subject.kind]}"
