"""What of a fleet is worth an alert, what is not known, and the words that people get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from covey.app.fleet.alerts import findings_of, message_of
from covey.app.fleet.documents import Fleet, FleetDevice, FleetRelease, FleetRollback, FleetValue
from covey.config.schema import AlertsConfig
from covey.core.alerts import AlertBook, AlertFinding, AlertKind, Subject

_NOW_US = 1_800_000_000_000_000
_MINUTE_US = 60_000_000
_CONFIG = AlertsConfig()
_OWN = f"{1:064x}"
_Found = list[tuple[Subject, AlertFinding | None]]


@dataclass(frozen=True, slots=True)
class _Fleet(Fleet):
    devices: tuple[FleetDevice, ...] = ()


def _value(name: str = "soil", value: float = 1.0, age_minutes: int = 1, clock: str = "synchronised") -> FleetValue:
    return FleetValue(name, "/", value, _NOW_US - age_minutes * _MINUTE_US, clock)


def _device(number: int = 1, presence: str = "online", minutes: int = 38, *values: FleetValue) -> FleetDevice:
    since_us = _NOW_US - minutes * _MINUTE_US
    key, label = f"{number:064x}", f"gateway-{number}"
    return FleetDevice(
        key[:16],
        key,
        label,
        False,
        (),
        presence,
        since_us,
        since_us,
        None,
        None,
        None,
        0,
        None,
        {},
        None,
        0,
        False,
        values,
    )


def _fleet(*devices: FleetDevice, listens: bool = True) -> _Fleet:
    return _Fleet(_NOW_US, "", (), (), (), (), reads_vault=True, listens=listens, devices=devices)


def _found(
    fleet: _Fleet, config: AlertsConfig = _CONFIG, *, settled: bool = True, known: Iterable[Subject] = ()
) -> _Found:
    return [*findings_of(fleet, fleet.devices, config, own=_OWN, settled=settled, known={*known})]


def _wrong(fleet: _Fleet, *, settled: bool = True, config: AlertsConfig = _CONFIG) -> list[tuple[str, str]]:
    found = _found(fleet, config, settled=settled)
    return [(subject.kind, each.what) for subject, each in found if each is not None]


def _texts(before: _Fleet, after: _Fleet) -> list[str]:
    """Return what is told at a look, and at the next one."""
    book, texts = AlertBook(), []
    for fleet in (before, after):
        devices = {each.key for each in fleet.devices}
        notices = book.look(_found(fleet), devices, fleet.at_us, 0)
        texts += [message_of(notice, devices, fleet.at_us, 1).text for notice in notices]
    return texts


def test_an_alert_reports_a_silent_device_and_its_return() -> None:
    assert _wrong(_fleet(_device(1, "silent"))) == [("silent", "is silent")]
    assert _wrong(_fleet(_device(1, "gone", 5))) == []
    assert _wrong(_fleet(_device(1, "stopped"), _device(2, "unknown"))) == []
    begun, ended = _texts(_fleet(_device(1, "silent")), _fleet(_device(1, "online", 0)))
    assert begun.startswith("gateway-1 is silent since ")
    assert ended == "gateway-1 is back after 38 min"


def test_after_a_start_silence_and_ages_are_not_known() -> None:
    fleet = _fleet(_device(1, "silent"), _device(2, "online", 38, _value(age_minutes=600)))
    found = _found(fleet, settled=False)
    assert Subject(AlertKind.SILENT, fleet.devices[0].key) not in dict(found)
    assert all(subject.kind is not AlertKind.STALE for subject, _ in found)


def test_an_alert_about_an_offline_hub_replaces_all_others() -> None:
    hub, others = _device(0, "itself"), [_device(number, "silent") for number in range(1, 400)]
    (only,) = _wrong(_fleet(hub, *others, listens=False), settled=False)
    assert "receives nothing" in only[1]


def test_a_storm_says_that_it_is_most_of_the_fleet() -> None:
    devices = [_device(number, "silent") for number in range(400)]
    (begun, ended) = _texts(_fleet(*devices), _fleet(*(replace(each, presence="online") for each in devices)))
    first, second, *names, more = begun.splitlines()
    assert first.startswith("400 of 400 devices are silent since ")
    assert "check the relay" in second
    assert (len(names), more) == (8, "and 392 more: covey fleet")
    assert ended.startswith("400 of 400 devices are back.")


def test_losses_values_disks_and_clocks() -> None:
    lost = replace(_device(), lost={"expired": 3}, lost_at_us=_NOW_US - _MINUTE_US)
    assert _wrong(_fleet(lost)) == [("lost", "has lost 3 messages (expired)")]
    assert _wrong(_fleet(replace(lost, lost_at_us=_NOW_US - 1_441 * _MINUTE_US))) == []
    stale = _device(1, "online", 38, _value("soil", age_minutes=181), _value("air"))
    assert _wrong(_fleet(stale)) == [("stale", "has had no value of soil")]
    assert _wrong(_fleet(replace(stale, presence="gone", presence_since_us=_NOW_US))) == []
    hourly = [_value(each, age_minutes=181) for each in ("firmware", f"board/{'ab' * 32}/firmware")]
    assert _wrong(_fleet(_device(1, "online", 38, *hourly))) == []
    assert _wrong(_fleet(_device(1, "online", 38, _value("disk/use", 0.95)))) == [
        ("disk", "has a disk that is 95% full")
    ]
    unset = _device(1, "online", 38, _value(clock="unsynchronised"))
    assert _wrong(_fleet(unset)) == [("clock", "has a clock that is not synchronised")]
    nothing = AlertsConfig(
        silent_minutes=0.0, stale_minutes=0.0, disk_percent=0.0, lost=False, clock=False, releases=False
    )
    assert _found(_fleet(lost, stale, unset), nothing) == []


def test_a_disk_about_the_threshold_neither_ends_nor_begins_anything() -> None:
    between = _found(_fleet(_device(1, "online", 38, _value("disk/use", 0.89))))
    assert all(subject.kind is not AlertKind.DISK for subject, _ in between)


def test_of_two_disks_of_a_device_the_full_one_counts() -> None:
    for full, roomy in (("a/disk/use", "disk/use"), ("disk/use", "a/disk/use")):
        both = _fleet(_device(1, "online", 38, _value(full, 0.99), _value(roomy, 0.2)))
        (begun,) = _texts(both, both)
        assert "has a disk that is 99% full" in begun


def test_a_label_of_a_peer_is_one_line() -> None:
    (text,) = _texts(_fleet(replace(_device(1, "silent"), label="a\nBcc: b\x1b[2J")), _fleet())[:1]
    assert "\n" not in text
    assert "\x1b" not in text


def test_a_device_that_left_the_fleet_raises_no_silence_alert() -> None:
    _, ended = _texts(_fleet(_device(1, "silent")), _fleet())
    assert ended == "gateway-1 is no longer in the fleet"


_RELEASE = FleetRelease(
    "ab" * 32,
    ("01" * 32,),
    *("0a0a0a0a", "hub"),
    _NOW_US - _MINUTE_US,
    *("install for all", "stopped"),
    *(1, 3, 2, 1, 1, 0, 8),
)


def _texts_of(*fleets: _Fleet) -> list[str]:
    """Return what is told at a look after the other, an hour between them."""
    book, texts = AlertBook(), []
    for hours, fleet in enumerate(fleets):
        later = replace(fleet, at_us=fleet.at_us + hours * 60 * _MINUTE_US)
        devices = {each.key for each in fleet.devices}
        for notice in book.look(_found(later, known=book.episodes), devices, later.at_us, 0):
            message = message_of(notice, devices, later.at_us, 1)
            texts.append(f"{message.title} | {message.text}")
    return texts


def test_an_alert_reports_a_stopped_release_once_and_its_resumption() -> None:
    hub = _device(1, "itself")
    stopped = replace(_fleet(hub), releases=(_RELEASE,))
    goes_on = replace(_fleet(hub), releases=(replace(_RELEASE, state="under way"),))
    begun, ended = _texts_of(goes_on, stopped, stopped, goes_on, goes_on)
    assert begun.startswith(
        "Covey: 1 release: stopped | release abababab (install for all) has stopped in wave 1: 1 failed, 0 silent of 2"
    )
    assert ended == "Covey: 1 release: no longer stopped | release abababab is no longer stopped, after 2 h"
    assert len(_texts_of(stopped, _fleet(hub))) == 2, "one that is no longer among the newest ends, too"


def test_an_alert_reports_a_rolled_back_device_once_and_its_recovery() -> None:
    hub, device = _device(1, "itself"), _device(2)
    back = FleetRollback(device.key, "pump\n", "cd" * 32, "update", "on 1.0: no sign of life", back=True, at_us=_NOW_US)
    begun, ended = _texts_of(replace(_fleet(hub, device), rollbacks=(back,)), _fleet(hub, device))
    assert "\n" not in begun
    assert "rolled back after update: on 1.0: no sign of life since" in begun
    assert ended.endswith("works again with update, after 1 h")


def _alarm(name: str, minutes: int) -> FleetValue:
    return replace(_value(value=51.5), alarm=name, alarm_at_us=_NOW_US - minutes * _MINUTE_US)


def test_an_alarm_of_a_series_is_sent_at_once_and_so_is_its_end() -> None:
    raised, ended = (_fleet(_device(1, "online", 0, _alarm(name, 1))) for name in ("raised", "ended"))
    book, texts = AlertBook(), []
    for fleet in (raised, ended):
        devices = {each.key for each in fleet.devices}
        notices = book.look(_found(fleet, known=[*book.episodes]), devices, fleet.at_us, 10**12)
        texts += [message_of(notice, devices, fleet.at_us, 1).text for notice in notices]
    assert texts[0].startswith("gateway-1 has an alarm of soil, now 51.5 / since ")
    assert texts[1].startswith("gateway-1 no longer has an alarm of soil /, after ")
    assert _wrong(raised, config=replace(_CONFIG, alarms=False)) == []


def test_an_alarm_that_ended_before_a_look_is_sent_and_a_change_counts_for_an_hour() -> None:
    for name, minutes, count in (("ended", 1, 1), ("ended", 6, 0), ("changed", 59, 1), ("changed", 61, 0)):
        found = _wrong(_fleet(_device(1, "online", 0, _alarm(name, minutes))))
        assert [kind for kind, _ in found] == ["alarm"] * count
