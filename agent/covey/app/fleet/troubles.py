"""What of a fleet a person should see to, each with its severity and the command that mends it, or tells more.

1. Urgent: a gateway or other device is silent, a series is in alarm, readings were lost, this device cannot work, or a
   rollback failed.
2. Warning: a board is silent, a device was stopped on purpose, a budget is used up or will be early, a release stopped
   or was rolled back, or data cannot be read.
3. Notice: clocks, budgets that run low, a release that waits for its next wave, invitations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from covey.adapters.sqlite.fleet_table import Wanted
from covey.app.fleet.devices import shown_device
from covey.app.fleet.documents import SEVERITIES, FleetDevice, FleetRelease, FleetRollback, FleetTrouble, Severity
from covey.app.wording import budget_text, count, size_text
from covey.core.ids import device_name, labelled_name, printable
from covey.limits.vault import MAXIMUM_UNREADABLE_DEVICES

if TYPE_CHECKING:
    from covey.adapters.sqlite.fleet_table import FleetTable
    from covey.app.checks.status import OwnCondition
    from covey.app.telemetry.newest_readings import NewestReadings

_AGAINST = {
    "outbox_full": "on that device: covey config set outbox.maximum_bytes BYTES, or restore its relay connection",
    "expired": "on that device: covey config set telemetry.keep_days DAYS, or restore its relay connection",
    "damaged": "on that device: covey check database",
    "recipient_lost": "not recoverable: the collector was restored from an older backup; back it up more often",
}
_NAMED, _EXAMPLES = 8, 3
"""So many devices with the same trouble are named each; of more, so many."""
_ELSE = "on that device: covey check"
_OF_OWN: dict[bool, Severity] = {True: "urgent", False: "warning"}


def troubles_of(
    own: OwnCondition,
    table: FleetTable,
    releases: tuple[FleetRelease, ...],
    rollbacks: tuple[FleetRollback, ...],
    newest: NewestReadings,
    writers: Mapping[str, tuple[str, str]],
) -> Iterator[FleetTrouble]:
    """Yield what a person should see to: here, then roll-outs, then devices, then the vault."""
    for trouble in own.troubles:
        yield FleetTrouble(f"this device: {trouble}", "covey check", severity=_OF_OWN[trouble in own.grave])
    yield from _of_releases(releases, rollbacks)
    away = table.count(Wanted("overdue"))
    if away and (own.unplugged or not own.listens):
        yield FleetTrouble(
            f"{count(away, 'device')} not seen, because this device itself is offline",
            "check the cable, network and relay of this device: covey check",
            severity="urgent",
        )
    else:
        yield from _of_overdue(table, away)
    yield from _some(
        table,
        "alarm",
        _alarms_in_words,
        "have series in alarm",
        lambda each: f"covey fleet {each.device}",
        "covey fleet --only alarm",
        lambda _: "urgent",
    )
    yield from _some(
        table,
        "lost",
        lambda each: f"has lost {lost_in_words(each)}",
        "have lost messages",
        lambda each: _AGAINST.get(max(each.lost, key=each.lost.__getitem__), _ELSE),
        "covey fleet --only lost",
        lambda _: "urgent",
    )
    yield from _some(
        table,
        "clock",
        lambda _: "has a clock that is not synchronised",
        "have a clock that is not synchronised",
        lambda _: "on that device: timedatectl set-ntp true",
        "covey fleet --only clock",
        lambda _: "notice",
    )
    yield from _some(
        table,
        "budget",
        _budget_in_words,
        "have little left of the budget of their links",
        lambda _: "on that device: covey link plan",
        "covey fleet --only budget",
        lambda each: "notice" if each.cost is None or each.cost.outlook == "low" else "warning",
    )
    for node, code in newest.not_followed.items():
        writer = f" ({labelled_name(*writers[node])})" if node in writers else ""
        what = f"the vault data of node {node[:8]}{writer} is not accepted: {code}"
        yield FleetTrouble(what, "covey vault verify", severity="urgent")
    if newest.unreadable:
        yield FleetTrouble(f"{count(newest.unreadable, 'object')} of the vault cannot be read", "covey vault verify")
    yield from _of_unreadable(table, newest)
    if own.waiting_invitations:
        yield FleetTrouble(
            f"{count(own.waiting_invitations, 'invitation')} to answer", "covey request", severity="notice"
        )


def _alarms_in_words(device: FleetDevice) -> str:
    more = device.alarms - len(device.alarm_series)
    names = ", ".join(printable(each, 64) for each in device.alarm_series)
    return f"has an alarm of {names}{f' and {more} more series' if more else ''}"


def _budget_in_words(device: FleetDevice) -> str:
    cost = device.cost
    assert cost is not None, "only a device that reports its cost has an outlook"
    assert cost.budget_bytes is not None, "only a device with a budget has an outlook"
    named = budget_text(cost.budget_bytes, cost.period)
    if cost.outlook == "used up":
        return f"has used up the budget of its link, {named}: messages wait"
    if cost.outlook == "early":
        return f"will use up the budget of its link, {named}, early: forecast {size_text(cost.forecast_bytes or 0)}"
    return f"has less than a tenth left of the budget of its link, {named}"


def _of_overdue(table: FleetTable, away: int) -> Iterator[FleetTrouble]:
    mostly = 2 * away > table.count(Wanted()) and away > _NAMED
    yield from _some(
        table,
        "overdue",
        lambda each: f"is {each.presence}",
        "are away (most of the fleet)" if mostly else "are away",
        lambda _: "check its power and network; on that device: covey check",
        "check the relay and its network first: covey check" if mostly else "covey fleet --only offline",
        lambda each: "warning" if each.board or each.presence == "stopped" else "urgent",
    )


def _some(
    table: FleetTable,
    condition: str,
    what: Callable[[FleetDevice], str],
    of_many: str,
    hint: Callable[[FleetDevice], str],
    hint_of_many: str,
    severity: Callable[[FleetDevice], Severity],
) -> Iterator[FleetTrouble]:
    """Yield a trouble for each of a few devices; of many, name the first and count the others."""
    found = table.count(Wanted(condition))
    named = found if found <= _NAMED else _EXAMPLES
    highest: Severity = "notice"
    for each in map(shown_device, table.window(Wanted(condition), 0, named) if named else ()):
        highest = min(highest, severity(each), key=SEVERITIES.index)
        yield FleetTrouble(f"{_name(each)} {what(each)}", hint(each), each.key, severity(each))
    if found > named:
        yield FleetTrouble(f"and {found - named:,} more devices {of_many}", hint_of_many, severity=highest)


def _of_unreadable(table: FleetTable, newest: NewestReadings) -> Iterator[FleetTrouble]:
    for author, number in list(newest.unreadable_of.items())[:_NAMED]:
        row = table.device(author)
        name = _name(shown_device(row)) if row is not None else device_name(author)
        yield FleetTrouble(
            f"the readings in {count(number, 'message')} of {name} cannot be read",
            "it may run a newer Covey; they stay in the vault, and tables list them in quarantine",
            author.hex(),
        )
    if (found := len(newest.unreadable_of)) > _NAMED:
        at_least = "at least " if found == MAXIMUM_UNREADABLE_DEVICES else ""
        yield FleetTrouble(
            f"and {at_least}{found - _NAMED:,} more devices send readings that cannot be read",
            "they may run a newer Covey",
        )


def _of_releases(releases: tuple[FleetRelease, ...], rollbacks: tuple[FleetRollback, ...]) -> Iterator[FleetTrouble]:
    for each in releases:
        if each.state == "stopped":
            bad = ", ".join(
                f"{number} {word}" for word, number in (("failed", each.failed), ("silent", each.silent)) if number
            )
            yield FleetTrouble(
                f"release {each.id[:8]} ({each.what}) has stopped in wave {each.wave}: {bad} of {each.given}",
                f"covey release show {each.id[:8]}",
                release=each.id,
            )
        elif each.state == "ready":
            yield FleetTrouble(
                f"release {each.id[:8]} ({each.what}) is ready for its next wave: {count(each.others, 'device')} left",
                f"covey release resume {each.id[:8]}",
                severity="notice",
                release=each.id,
            )
    for one in rollbacks:
        went = "rolled back" if one.back else "could not roll back"
        yield FleetTrouble(
            f"{labelled_name(one.device[:8], one.label)} {went} after {one.action}: {one.why}",
            f"covey order show {one.order[:8]}",
            one.device,
            "warning" if one.back else "urgent",
        )


def lost_in_words(device: FleetDevice) -> str:
    """Return what a device has lost, and why."""
    return ", ".join(
        f"{count(number, 'message')} ({reason.replace('_', ' ')})" for reason, number in device.lost.items()
    )


def _name(device: FleetDevice) -> str:
    return f"{device.label} ({device.device})" if device.label else device.device
