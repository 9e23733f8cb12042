"""Print the result of a command on each device, and wait for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.loop.relay_loop import wait_until
from covey.app.orders import plans
from covey.app.orders.command_reports import OUTCOMES, CommandReport, DeviceOutcome, command_report, reported
from covey.app.orders.commands import OrderedCommand
from covey.app.wording import count
from covey.cli.grammar import seconds_option
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.status_view import duration
from covey.cli.output.terminal import PARTLY, TIME_UP, explained_interruption, print_fields, print_json, print_table
from covey.cli.quantities import date_text
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError
from covey.limits.actions import MAXIMUM_RESULT_WHY_BYTES

if TYPE_CHECKING:
    import argparse

    from covey.app.device.device import Device
    from covey.app.orders.fleet import Together
    from covey.app.orders.operators import OrderEntry
    from covey.app.orders.plans import KnownPlan
    from covey.cli.grammar import Parser
    from covey.core.group.manifest import GroupManifest

_WAIT_S = 600.0
_REFRESH_S = 5.0
_DAY_US = 86_400_000_000


def wait_options(parser: Parser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="wait until all devices have reported; exit codes: 'covey help all'"
    )
    seconds_option(parser, "--timeout", f"with --wait: time to wait (default: {_WAIT_S:.0f})")


def seconds_to_wait(*, wait: bool, timeout: float | None) -> float:
    """Return how long to wait, 0 without --wait.

    Raises:
        UsageError: --timeout is given without --wait.
    """
    if timeout is not None and not wait:
        raise UsageError("--timeout has no effect without --wait", hint="leave it out, or add --wait")
    return (_WAIT_S if timeout is None else timeout) if wait else 0.0


def print_ordered(given: OrderedCommand) -> None:
    """Print an order that was given, and its number of devices."""
    short, devices = given.order.id[:8], count(given.devices, "device")
    kind = "order" if given.given.plan is None else "plan"
    if given.obeying < given.devices:
        devices += f", {given.devices - given.obeying} of which allow no orders"
    if given.unable:
        devices += f" (too old a Covey for orders: {', '.join(given.unable[:5])})"
    if lacks := lacking(given.order):
        print(f"{kind} {short} for {devices}{in_groups(given.given)}: {lacks}")
    else:
        places = in_groups(given.given)
        print(f"{kind} {short} for {devices}{places}; to see the results: covey order show {short}", flush=True)


def in_groups(given: Together) -> str:
    """Return in how many groups a plan was given; empty for an order of one group."""
    return "" if given.plan is None else f" in {count(len(given.orders), 'group')}"


def lacking(order: OrderEntry) -> str:
    """Return how many operators must still approve an order, and the command for it; empty if none."""
    missing = order.needed - len(order.signers)
    more = count(missing, "more operator")
    return f"{more} must approve it: covey order approve {order.id[:8]}" if missing > 0 else ""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A command that is waited for: its id, how many results are here, and the report."""

    id: str
    reported: Callable[[], int]
    report: Callable[[], CommandReport]

    @classmethod
    def order(cls, device: Device, manifest: GroupManifest, order: str) -> Awaited:
        """Return one order of a group, by its whole id."""
        report = partial(command_report, device, manifest, order)
        return cls(order, partial(reported, device, manifest, order), lambda: _command(report()))

    @classmethod
    def plan(cls, device: Device, plan: KnownPlan) -> Awaited:
        """Return a plan's orders in all its groups."""
        return cls(
            plan.id.hex(), partial(plans.reported, device, plan), lambda: _command(plans.plan_report(device, plan))
        )


def wait_for_devices(device: Device, order: Awaited, options: argparse.Namespace) -> int:
    """With --wait, wait until every device has reported on an order, and show what; return the exit code.

    Args:
        order: one order, or a plan.
        options: with those of `wait_options`, and `json`.
    """
    seconds = seconds_to_wait(wait=options.wait, timeout=options.timeout)
    if not options.wait:
        return 0
    known, looked_at = -1, 0.0
    report: CommandReport | None = None

    def finished() -> bool:
        nonlocal known, looked_at, report
        now, found = time.monotonic(), order.reported()
        if report is None or found != known or now - looked_at > _REFRESH_S:
            known, looked_at, report = found, now, order.report()
            line.show(summary(report, device.clock.wall_us()), last=report.finished)
        return report.finished

    stands = f"the order remains in force; to see the results: covey order show {order.id[:8]}"
    with explained_interruption(lambda: stands), ProgressLine(plain=True) as line:
        wait_until(device, finished, seconds)
    report = order.report()
    show_command(report, device.clock.wall_us(), as_json=options.json)
    if not report.finished:
        return TIME_UP
    if report.failed or not report.devices:
        return 1
    return PARTLY if report.undone else 0


def _command(report: CommandReport | OrderEntry) -> CommandReport:
    assert isinstance(report, CommandReport), "nothing else is waited for"
    return report


def show_command(report: CommandReport, now_us: int, *, as_json: bool) -> None:
    """Print a command and its results."""
    if as_json:
        print_json({**to_json(report), "outcomes": dict(report.outcomes)})
        return
    show_order(report.order)
    if report.deadline_us is not None:
        late = " (passed: no further device starts it)" if report.deadline_us < now_us else ""
        print_fields({"until": date_text(report.deadline_us) + late}, 8)
    if report.outcomes["elsewhere"]:
        print(f"\n{whom_results_go_to(report)}")
    print(f"\n{summary(report, now_us)}\n")
    print_table(*device_rows(report.devices))


def device_rows(devices: Iterable[DeviceOutcome]) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the heading and the rows of a table of a command's results, one for each device."""
    rows = [_row(each) for each in sorted(devices, key=lambda each: OUTCOMES.index(each.outcome))]
    return ["device", "state", "exit", "took", "ended", "output", "why"], rows


def whom_results_go_to(report: CommandReport) -> str:
    """Return in one line which devices receive a command's results, for a device that does not."""
    author = report.order.author in report.hearers
    collectors = len(report.hearers) - author
    who = []
    if author:
        who.append(labelled_name(report.order.author[:8], report.order.label) + " (its sender)")
    if collectors:
        who.append(count(collectors, "collector"))
    return "results go to " + (" and ".join(who) or "no device: its sender is no longer a member")


def standing(*, counts: bool, signed: int, needed: int) -> str:
    """Return whether an order is in force, and if not, how many operators have signed it."""
    return "in force" if counts else f"not in force, signed by {signed} of {needed}"


def show_order(order: OrderEntry) -> None:
    print_fields(
        {
            "order": order.id,
            "what": printable(order.text),
            "given": f"{date_text(order.made_at_us)} by {labelled_name(order.author[:8], order.label)}",
            "state": standing(counts=order.counts, signed=len(order.signers), needed=order.needed),
        },
        8,
    )
    if order.kind == "setting":
        print("results: covey setting diff")


def _row(each: DeviceOutcome) -> tuple[object, ...]:
    took = None
    if each.started_at_us is not None and each.ended_at_us is not None and each.ended_at_us >= each.started_at_us:
        took = f"{(each.ended_at_us - each.started_at_us) / 1e6:.1f} s"
    ended = None
    if each.ended_at_us is not None:
        ended = date_text(each.ended_at_us) + ("" if each.synchronised else " (clock not synchronised)")
    output = None
    if each.output_bytes or each.cut:
        output = (
            f"{each.output_bytes} B" + (", truncated" if each.cut else "") + ("" if each.output_kept else ", deleted")
        )
    why = printable(each.why, MAXIMUM_RESULT_WHY_BYTES) or each.code
    if each.outcome == "excluded":
        why = "allowed no orders when this one was given"
    if each.outcome == "asleep":
        why = f"last seen {date_text(each.seen_at_us)}" if each.seen_at_us else "never seen"
    if each.unsigned:
        why += " (reported by its gateway)"
    who = labelled_name(each.name, each.label)
    return who, each.outcome, each.exit, took, ended, output, why


def summary(report: CommandReport, now_us: int) -> str:
    """Return in one line how many devices there are of each result."""
    return ", ".join(_parts(report, now_us)) or "no devices"


def _parts(report: CommandReport, now_us: int) -> Iterator[str]:
    outcomes = report.outcomes
    for outcome in OUTCOMES:
        if not outcomes[outcome]:
            continue
        text = f"{outcomes[outcome]} {outcome}"
        if outcome == "asleep":
            longest = min(
                (each for each in report.devices if each.away_since_us is not None),
                key=lambda each: each.away_since_us or 0,
            )
            seen = date_text(longest.seen_at_us) if longest.seen_at_us else "never"
            since = since_text(longest.away_since_us or 0, now_us)
            text += f"{'' if outcomes[outcome] == 1 else ', the longest'} {since} (last seen {seen})"
        yield text


def since_text(at_us: int, now_us: int) -> str:
    """Return how long something has lasted: `for 3 h`, `since Tuesday`, `since 2026-11-02`; in UTC."""
    if now_us - at_us < _DAY_US:
        return f"for {duration(max(0, now_us - at_us) // 1_000_000)}"
    if now_us - at_us < 6 * _DAY_US:
        return f"since {datetime.fromtimestamp(at_us // 1_000_000, UTC):%A}"
    return f"since {date_text(at_us)[:10]}"


def print_output(lines: Iterator[str], shown: DeviceOutcome) -> None:
    for line in lines:
        print(line)
    if shown.cut:
        print(f"note: the output was longer; {shown.name} kept only the beginning", file=sys.stderr)
