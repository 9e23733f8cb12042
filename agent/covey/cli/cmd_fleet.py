"""`covey fleet`: every device of this device's groups on one screen, or one of them with its last values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.operations import fleet
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.live_screen import interval_option, read_interval, watch
from covey.cli.quantities import read_us
from covey.cli.status_view import duration
from covey.cli.terminal import print_json, table_lines
from covey.core.ids import printable
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from covey.app.operations.fleet import Fleet, FleetDevice, FleetValue, FleetView

_DEVICES_HEAD = ("device", "label", "presence", "heard", "newest reading", "lag", "waiting", "lost", "series")
_VALUES_HEAD = ("series", "value", "age", "clock")
_LONGEST_US = 3_650 * 86_400_000_000
_NO_VAULT = "no last values: this device has no vault's keys; covey fleet on a collector shows them"
_TEXT = 40
_TROUBLES = 10
"""Lines of what is wrong; --json has them all."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "device", nargs="?", metavar="DEVICE", help="show one device with its last values: key or label"
    )
    parser.add_argument("--since", metavar="TIME", default="1d", help="look so far back in the vault (default: 1d)")
    parser.add_argument("--vault", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--watch", action="store_true", help="draw it anew all the time; q ends it")
    interval_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show the fleet."""
    interval_s = read_interval(options.interval)
    if options.watch and options.json:
        raise UsageError("--watch is for people, --json for programs")
    view = fleet.FleetView()
    if options.watch:
        watch(lambda: _lines(_look(options, view), options.device), interval_s, "covey fleet")
        return 0
    found = _look(options, view)
    if not options.json:
        print("\n".join(_lines(found, options.device)))
    elif options.device:
        print_json(to_json(_picked(found, options.device)))
    else:
        print_json(to_json(found))
    return 0


def _look(options: argparse.Namespace, view: FleetView) -> Fleet:
    since_us = read_us("--since", options.since, _LONGEST_US)
    with open_device(options) as device:
        return view.look(device, options.vault, since_us)


def _picked(found: Fleet, name: str) -> FleetDevice:
    """Return the device that a person means.

    Raises:
        LocalError: none, or more than one.
    """
    labelled = [each for each in found.devices if each.label == name]
    matching = labelled or [each for each in found.devices if each.key.startswith(name.lower())]
    if len(matching) != 1:
        raise LocalError(
            f"{len(matching) or 'no'} devices are called {printable(name, 64)!r}", hint="covey fleet lists them"
        )
    return matching[0]


def _lines(found: Fleet, name: str | None) -> Iterator[str]:
    if name is not None:
        yield from _device(_picked(found, name), found.at_us, reads_vault=found.reads_vault)
        return
    yield found.summary
    for trouble in found.troubles[:_TROUBLES]:
        yield f"  ! {printable(trouble.what)}: {trouble.hint}"
    if len(found.troubles) > _TROUBLES:
        yield f"  ! and {len(found.troubles) - _TROUBLES} more: --json shows all"
    yield ""
    yield from table_lines(_DEVICES_HEAD, [_row(each, found.at_us) for each in found.devices])
    if not found.reads_vault:
        yield ""
        yield _NO_VAULT


def _row(device: FleetDevice, now_us: int) -> tuple[object, ...]:
    return (
        device.device,
        printable(device.label) or "-",
        _presence(device, now_us),
        _ago(device.seen_at_us, now_us),
        _ago(device.newest_at_us, now_us),
        "-" if device.lag_seconds is None else duration(device.lag_seconds),
        f"{device.waiting} for {_age(device.waiting_since_us, now_us)}" if device.waiting else "0",
        sum(device.lost.values()),
        f"{device.series}{'+' if device.left_out else ''}",
    )


def _device(device: FleetDevice, now_us: int, *, reads_vault: bool) -> Iterator[str]:
    yield f"device    {device.device} {printable(device.label)}".rstrip()
    yield f"presence  {_presence(device, now_us)}, heard {_ago(device.seen_at_us, now_us)}"
    yield f"groups    {', '.join(each[:8] for each in device.groups)}"
    if device.waiting:
        yield f"waiting   {device.waiting} here, the oldest for {_age(device.waiting_since_us, now_us)}"
    if device.lost:
        yield f"lost      {fleet.lost_in_words(device)}"
    if not reads_vault:
        yield _NO_VAULT
        return
    if device.lag_seconds is not None:
        taken = _ago(device.landed_at_us, now_us)
        yield f"landed    {taken}; its newest reading was {duration(device.lag_seconds)} old then"
    yield ""
    yield from table_lines(_VALUES_HEAD, [_value(each, now_us) for each in device.values])
    if device.left_out:
        yield "and more series than are shown"


def _value(value: FleetValue, now_us: int) -> tuple[object, ...]:
    shown = f"{value.value:.9g}" if isinstance(value.value, float) else str(value.value)
    measured = f"{printable(shown, _TEXT)} {printable(value.unit)}".rstrip()
    return printable(value.name, 64), measured, _ago(value.at_us, now_us), value.clock


def _presence(device: FleetDevice, now_us: int) -> str:
    if device.presence == fleet.SELF or device.presence_since_us is None:
        return device.presence
    return f"{device.presence} for {_age(device.presence_since_us, now_us)}"


def _ago(at_us: int | None, now_us: int) -> str:
    return "never" if at_us is None else f"{_age(at_us, now_us)} ago"


def _age(at_us: int | None, now_us: int) -> str:
    return duration(max(0, now_us - (at_us or now_us)) // 1_000_000)
