"""`covey fleet`: the devices of this device's groups on one screen, or one device with its last values.

Of a fleet that is too large for a screen it lists the devices with problems first, and counts the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from covey.app.documents import to_json
from covey.app.fleet import device_story, fleet
from covey.app.fleet.devices import SELF
from covey.app.fleet.fleet import KINDS
from covey.app.fleet.keeping import SINCE_US
from covey.app.fleet.kept_fleet import KeptFleet
from covey.app.fleet.packages import find_packages
from covey.app.fleet.troubles import lost_in_words
from covey.app.groups.groups import pick_device
from covey.app.telemetry.human_units import reading_text
from covey.app.wording import budget_text, count, size_text
from covey.cli.device_options import open_device, state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.command_view import standing
from covey.cli.output.group_view import collector_words, relay_words
from covey.cli.output.live_screen import interval_option, read_interval, watch
from covey.cli.output.status_view import duration
from covey.cli.output.terminal import print_json, print_json_with, table_lines
from covey.cli.quantities import read_us
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.adapters.sqlite.fleet_table import Wanted
    from covey.app.fleet.device_story import Custody, HeldMessage, StoryLine
    from covey.app.fleet.documents import (
        Fleet,
        FleetCost,
        FleetDevice,
        FleetFile,
        FleetGroup,
        FleetOrder,
        FleetRelease,
        FleetValue,
    )
    from covey.app.fleet.fleet import FleetView, OneDevice

_DEVICES_HEAD = (
    "device",
    "label",
    "presence",
    "last seen",
    "newest reading",
    "lag",
    "waiting",
    "missing",
    "lost",
    "series",
    "link",
    "version",
)
_GROUPS_HEAD = ("group", "members", "online", "silent", "with losses", "with waiting messages", "collectors")
_ORDERS_HEAD = ("order", "given", "by", "state", "results", "what")
_RELEASES_HEAD = ("release", "started", "by", "state", "devices", "what")
_FILES_HEAD = ("file", "offered", "by", "size", "here", "name")
_VALUES_HEAD = ("series", "value", "age", "clock", "alarm")
_PACKAGES_HEAD = ("device", "label", "package", "version", "reported")
_NAMED = 8
_LONGEST_US = 3_650 * 86_400_000_000
_NO_VAULT = "no last values: this device has no vault key; run 'covey fleet' on a collector"
_PATIENCE_S = 5.0
"""How long to wait for the look of an agent that keeps a large fleet."""
_TEXT = 40
_STORY = 12
"""Lines of a device's story; --json has more."""
_OUTBOX = 10
"""Messages that wait for one device, the oldest; 'covey message ls' has them all."""
_MARKS = {"urgent": " !!", "warning": "  !", "notice": "  -"}
_TROUBLES = 10
"""Lines of what is wrong; --json has them all."""
_DEVICES = 200
"""Devices that are listed where no option says otherwise, as on the page: those that are not well first."""
_GROUPS = 12
"""Groups that are counted, those with most that is not well; --json has them all."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "device", nargs="?", metavar="DEVICE", help="show one device with its last values: label, or start of key"
    )
    parser.add_argument("--only", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--find", metavar="TEXT", default="", help="list devices by part of a label, or start of a key")
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help=f"list at most N devices (default: {_DEVICES}; all with --only, --find or --json)",
    )
    parser.add_argument("--has", metavar="PACKAGE", help="list devices with a package: NAME, or 'NAME<VERSION'")
    parser.add_argument("--since", metavar="TIME", default="1d", help="how far to look back in the vault (default: 1d)")
    parser.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--watch", action="store_true", help="keep updating the screen (q to stop)")
    interval_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show the fleet.

    Raises:
        UsageError: the options contradict each other.
    """
    if options.device is not None and (options.only or options.find or options.limit is not None):
        raise UsageError("--only, --find and --limit list devices; they cannot be used with one device")
    if options.limit is not None and options.limit < 0:
        raise UsageError("--limit must be 0 or more")
    if options.has is not None and (
        options.device or options.only or options.find or options.limit is not None or options.watch
    ):
        raise UsageError("--has can be used with --json alone")
    interval_s = read_interval(options.interval)
    if options.watch and options.json:
        raise UsageError("--watch and --json exclude each other")
    if options.has is not None:
        return _has(options)
    view, kept = fleet.FleetView(), KeptFleet(state_folder(options))
    if options.watch:
        watch(lambda: _lines(_look(options, view, kept)), interval_s, "covey fleet")
        return 0
    found = _look(options, view, kept)
    if not options.json:
        for line in _lines(found):
            print(line)
    elif isinstance(found, _Device):
        more = {"story": [to_json(each) for each in found.story], "custody": to_json(found.custody)}
        more["outbox"] = [to_json(each) for each in found.outbox]
        print_json({**to_json(found.found.device), **more})
    else:
        print_json_with(to_json(found.fleet), "devices", map(to_json, found.devices(values=True)))
    return 0


def _has(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        found = find_packages(device, options.has)
    if options.json:
        print_json(to_json(found))
        return 0
    rows = [
        [
            each.device,
            printable(each.label),
            printable(each.name),
            printable(each.version),
            duration(each.reported_seconds),
        ]
        for each in found.packages
    ]
    if rows:
        print("\n".join(table_lines(_PACKAGES_HEAD, rows)))
    else:
        print(f"none of {count(found.devices, 'device')} has {printable(options.has)}")
    if found.unknown:
        named = ", ".join(printable(each) for each in found.unknown[:_NAMED])
        more = ", ..." if len(found.unknown) > _NAMED else ""
        print(f"{count(len(found.unknown), 'device')} did not report packages: {named}{more}")
        print("hint: run there: covey config set sensors.packages true")
    return 0


class _Devices(NamedTuple):
    """A fleet, and which of its devices to list: up to `limit` of those that are `wanted`; None for all of them."""

    fleet: Fleet
    view: FleetView
    wanted: Wanted
    limit: int | None

    def devices(self, *, values: bool) -> Iterator[FleetDevice]:
        """Yield the devices to list."""
        return self.view.devices(self.wanted, self.limit, values=values)

    @property
    def left_out(self) -> int:
        """How many devices match and are not listed."""
        return 0 if self.limit is None else max(0, self.view.table.count(self.wanted) - self.limit)


class _Device(NamedTuple):
    """One device with its story, the place of its readings, and the messages that wait for it."""

    found: OneDevice
    story: list[StoryLine]
    custody: Custody
    outbox: list[HeldMessage]


def _look(options: argparse.Namespace, view: FleetView, kept: KeptFleet) -> _Devices | _Device:
    since_us = read_us("--since", options.since, _LONGEST_US)
    wanted = fleet.wanted(options.only or "all", options.find)
    limit = None if options.only or options.find or options.json else _DEVICES
    limit = limit if options.limit is None else options.limit
    if options.device is None and options.vault is None and since_us == SINCE_US:
        look = kept.fresh(_PATIENCE_S)
        if look is not None:
            return _Devices(look.fleet, look.view, wanted, limit)
    with open_device(options) as device:
        if options.device is None:
            return _Devices(view.look(device, options.vault, since_us), view, wanted, limit)
        key = pick_device(device.node.groups.joined(), options.device).keys.signing_public
        return _Device(
            view.look_at(device, options.vault, since_us, key),
            device_story.story(device, key, view.said_by(key)),
            device_story.custody(device, key),
            device_story.waiting_for(device, key, _OUTBOX),
        )


def _lines(found: _Devices | _Device) -> Iterator[str]:
    if isinstance(found, _Device):
        yield from _device(found)
    else:
        yield from _fleet(found)


def _fleet(listed: _Devices) -> Iterator[str]:
    found = listed.fleet
    yield printable(found.summary, 1_000)
    for trouble in found.troubles[:_TROUBLES]:
        yield f"{_MARKS[trouble.severity]} {printable(trouble.what)}: {printable(trouble.hint, 1_000)}"
    if len(found.troubles) > _TROUBLES:
        yield f"    and {len(found.troubles) - _TROUBLES} more: --json shows all"
    if found.relays:
        yield f"    relay: {relay_words([(each.url, each.state) for each in found.relays])}"
    if len(found.groups) > 1:
        yield ""
        yield from _groups(found.groups)
    yield ""
    yield from table_lines(_DEVICES_HEAD, (_row(each, found.at_us) for each in listed.devices(values=False)))
    if listed.left_out:
        yield f"and {listed.left_out:,} more: --only offline lists those that are offline, --limit N lists more"
    if not found.reads_vault:
        yield ""
        yield _NO_VAULT
    if found.orders:
        yield ""
        yield from table_lines(_ORDERS_HEAD, [_order(each, found.at_us) for each in found.orders])
    if found.releases:
        yield ""
        yield from table_lines(_RELEASES_HEAD, [_release(each, found.at_us) for each in found.releases])
    if found.files:
        yield ""
        yield from table_lines(_FILES_HEAD, [_file(each, found.at_us) for each in found.files])
    if found.versions:
        yield ""
        yield "versions: " + ", ".join(f"{printable(each.version)} on {each.devices}" for each in found.versions)


def _groups(groups: tuple[FleetGroup, ...]) -> Iterator[str]:
    """Yield a table of groups, those with most problems first."""
    first = sorted(groups, key=lambda each: each.silent + each.lost, reverse=True)[:_GROUPS]
    yield from table_lines(_GROUPS_HEAD, [_group(each) for each in first])
    if len(groups) > _GROUPS:
        yield f"and {len(groups) - _GROUPS} more groups: --json shows all"


def _group(group: FleetGroup) -> tuple[object, ...]:
    title = printable(group.title, 64) or group.group_id[:8]
    collectors = ", ".join(collector_words(each) for each in group.collectors) or "none"
    return title, group.members, group.online, group.silent, group.lost, group.waiting, collectors


def _order(order: FleetOrder, now_us: int) -> tuple[object, ...]:
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in order.outcomes.items())
    return (
        order.id[:8],
        _ago(order.given_at_us, now_us),
        labelled_name(order.device[:8], order.label),
        standing(counts=order.counts, signed=order.signed, needed=order.needed),
        outcomes or "-",
        printable(order.what, 60),
    )


def _release(release: FleetRelease, now_us: int) -> tuple[object, ...]:
    counts = [f"{release.done} of {release.given} done"]
    for number, word in ((release.failed, "failed"), (release.silent, "silent"), (release.others, "left")):
        counts += [f"{number} {word}"] * bool(number)
    return (
        release.id[:8],
        _ago(release.began_at_us, now_us),
        labelled_name(release.device, release.label),
        f"{release.state}, wave {release.wave} of {release.waves}",
        ", ".join(counts),
        printable(release.what, 60),
    )


def _file(file: FleetFile, now_us: int) -> tuple[object, ...]:
    return (
        file.id[:8],
        _ago(file.offered_at_us, now_us),
        labelled_name(file.device, file.label),
        size_text(file.size),
        f"{size_text(file.fetched)} so far" if file.state == "requested" else file.state,
        printable(file.name, 60),
    )


def _row(device: FleetDevice, now_us: int) -> tuple[object, ...]:
    return (
        device.device,
        (printable(device.label) or "-") + (" (board)" if device.board else ""),
        _presence(device, now_us),
        _ago(device.seen_at_us, now_us),
        _ago(device.newest_at_us, now_us),
        "-" if device.lag_seconds is None else duration(device.lag_seconds),
        f"{device.waiting} for {_age(device.waiting_since_us, now_us)}" if device.waiting else "0",
        device.missing,
        sum(device.lost.values()),
        f"{device.series}{'+' if device.left_out else ''}{f', {device.alarms} in alarm' if device.alarms else ''}",
        _cost(device.cost),
        printable(device.version.partition(";")[0]) or "-",
    )


def _cost(cost: FleetCost | None) -> str:
    """Return what the link has cost in the period of its budget; without one, this month."""
    if cost is None:
        return "-"
    if cost.budget_bytes is None:
        return f"{size_text(cost.month_bytes)}/month"
    spent = cost.month_bytes if cost.period == "month" else cost.today_bytes
    text = f"{'?' if spent is None else size_text(spent)} of {budget_text(cost.budget_bytes, cost.period)}"
    return text if cost.outlook in {"", "fine"} else f"{text}, {cost.outlook}"


def _cost_line(cost: FleetCost, now_us: int) -> str:
    today = "" if cost.today_bytes is None else f"{size_text(cost.today_bytes)} today, "
    text = f"{today}{size_text(cost.month_bytes)} this month"
    if cost.forecast_bytes is not None:
        text += f", forecast {size_text(cost.forecast_bytes)}"
    if cost.budget_bytes is not None:
        lasts = f" ({cost.outlook})" if cost.outlook else ""
        text += f"; budget {budget_text(cost.budget_bytes, cost.period)}{lasts}"
    return f"{text}; reported {_ago(cost.at_us, now_us)}"


def _device(shown: _Device) -> Iterator[str]:
    found, device, now_us = shown.found, shown.found.device, shown.found.at_us
    yield f"device    {labelled_name(device.device, device.label)}{', a board' if device.board else ''}"
    yield f"presence  {_presence(device, now_us)}, last seen {_ago(device.seen_at_us, now_us)}"
    yield f"groups    {', '.join(printable(each, 64) for each in found.groups)}"
    yield from _is(found)
    yield from _held(shown)
    if not found.reads_vault:
        yield _NO_VAULT
    elif device.lag_seconds is not None:
        taken = _ago(device.landed_at_us, now_us)
        yield f"stored    {taken}; the newest reading was {duration(device.lag_seconds)} old then"
    if device.values:
        yield ""
        yield from table_lines(_VALUES_HEAD, [_value(each, now_us) for each in device.values])
    if device.left_out:
        yield "more series exist than are shown"
    if shown.story:
        yield ""
        yield from (f"{_ago(each.at_us, now_us):>12}  {printable(each.what)}" for each in shown.story[:_STORY])


def _is(found: OneDevice) -> Iterator[str]:
    """Yield a device's gateway or boards, its version, features and clock."""
    device = found.device
    if device.gateway:
        yield f"behind    {device.gateway[:8] if found.gateway is None else _name(found.gateway)}"
    if found.boards:
        yield f"boards    {', '.join(map(_name, found.boards))}"
    if device.version:
        yield f"version   {printable(device.version)}"
    if device.features:
        yield f"supports  {', '.join(map(printable, device.features))}"
    if device.cost is not None:
        yield f"link      {_cost_line(device.cost, found.at_us)}"
    if device.clock:
        yield f"clock     {'not synchronised' if device.clock == 'unsynchronised' else device.clock}"


def _held(found: _Device) -> Iterator[str]:
    """Yield the messages that wait for a device, and its readings that were lost or are in transit."""
    device, now_us = found.found.device, found.found.at_us
    if device.waiting:
        oldest = _age(device.waiting_since_us, now_us)
        yield f"waiting   {device.waiting} on this device, the oldest for {oldest}: {device.waits_because}"
        for each in found.outbox:
            yield f"          {each.kind}, {size_text(each.size)}, {_ago(each.queued_at_us, now_us)}"
    if device.lost:
        yield f"lost      {lost_in_words(device)}"
    if found.custody.missing:
        yield f"missing   {count(found.custody.missing, 'message')} in transit: later ones arrived first"
    if found.custody.landing:
        since = _age(found.custody.landing_since_us, now_us)
        yield f"storing   {count(found.custody.landing, 'message')} not in the vault yet, the oldest for {since}"


def _name(device: FleetDevice) -> str:
    return labelled_name(device.device, device.label)


def _value(value: FleetValue, now_us: int) -> tuple[object, ...]:
    measured = reading_text(value.value, value.unit)[:_TEXT]
    alarm = f"{value.alarm} {_ago(value.alarm_at_us, now_us)}" if value.alarm else ""
    return printable(value.name, 64), measured, _ago(value.at_us, now_us), value.clock, alarm


def _presence(device: FleetDevice, now_us: int) -> str:
    if device.presence == SELF:
        return "this device"
    if device.next_at_us is not None:
        return f"{device.presence}, next at {fleet.local_time(device.next_at_us, now_us)}"
    if device.presence_since_us is None:
        return device.presence
    return f"{device.presence} for {_age(device.presence_since_us, now_us)}"


def _ago(at_us: int | None, now_us: int) -> str:
    return "never" if at_us is None else f"{_age(at_us, now_us)} ago"


def _age(at_us: int | None, now_us: int) -> str:
    return duration(max(0, now_us - (at_us or now_us)) // 1_000_000)
