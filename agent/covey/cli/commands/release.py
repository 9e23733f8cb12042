"""`covey release`: roll out a file in waves of devices, and stop if too many fail."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.content.content import FETCH_ACTION, check_room
from covey.app.content.file_offers import pick_offer
from covey.app.content.offering import sealed_files
from covey.app.device.known_labels import named_selector
from covey.app.documents import to_json
from covey.app.groups.own import personal_group
from covey.app.loop.relay_loop import wait_until
from covey.app.orders.continuing import absent, announce_release
from covey.app.orders.plans import find_plan
from covey.app.orders.release_reports import Release, release, releases
from covey.app.orders.releases import PlannedPart, abort, begin, go_on, pause, plan_release, read_waves, resume
from covey.app.wording import count, size_text
from covey.cli.device_options import on_device
from covey.cli.grammar import Actions, Parser, every_action, json_option, selector_option
from covey.cli.output.command_view import device_rows
from covey.cli.output.file_offering import offer_options, patch_text, seal_patch_with_progress, seal_with_progress
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import explained_interruption, print_fields, print_json, print_table
from covey.cli.quantities import date_text, read_us
from covey.cli.scope import pick_scope, read_scope, scope_options
from covey.core.ids import printable
from covey.errors import UsageError
from covey.limits.orders import MAXIMUM_RELEASE_WHY_BYTES

if TYPE_CHECKING:
    from covey.app.content.file_offers import GroupFile
    from covey.app.content.offering import SealedFile
    from covey.app.device.device import Device
    from covey.app.orders.fleet import Scope
    from covey.core.group.manifest import GroupManifest

_LOOK_S = 1.0
_LONGEST_US = 366 * 86_400_000_000
_MINUTE_S = 60.0
_MINUTE_US = 60_000_000
_WAITS = {"under way", "awaits approval"}


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list releases, oldest first", also=["ls"])
    create = actions.add("create", on_device(_create), "offer a file and install it on devices in waves")
    offer_options(create)
    selector_option(create)
    create.add_argument(
        "--installer",
        default=FETCH_ACTION,
        metavar="NAME",
        help=f"installer to run there (default: {FETCH_ACTION})",
    )
    create.add_argument(
        "--waves",
        default="1,1%,10%,100%",
        metavar="WAVES",
        help="devices per wave: numbers or percents (default: 1,1%%,10%%,100%%)",
    )
    create.add_argument(
        "--stop-at",
        default="2%",
        metavar="PERCENT",
        help="stop if more of a wave fail or fall silent (default: 2%%)",
    )
    create.add_argument(
        "--patience", default="15m", metavar="TIME", help="a device that reports later is silent (default: 15m)"
    )
    create.add_argument(
        "--soak", default="5m", metavar="TIME", help="time to watch a wave after it reported (default: 5m)"
    )
    create.add_argument(
        "--health",
        default="seen",
        metavar="HOW",
        help="required sign of life: seen, seen:TIME, or reported for none",
    )
    _add_follow_up(actions)
    every_action(parser, scope_options, json_option)


def _add_follow_up(actions: Actions) -> None:
    """Add the actions for a release that has started."""
    status = actions.add("status", on_device(_status), "show the progress of a release on each device", also=["show"])
    halt = actions.add("pause", on_device(_pause), "pause a release: no further device starts")
    end = actions.add("abort", on_device(_abort), "cancel on devices that have not started; roll back trials")
    resumed = actions.add(
        "resume", on_device(_resume), "resume a release, from any operator's device", also=["continue"]
    )
    resumed.add_argument("--stop-at", metavar="PERCENT", help="from now on, stop if more of a wave fail")
    resumed.add_argument(
        "--accept-failures",
        action="store_true",
        help="resume despite failed and silent devices; ignore them from now on",
    )
    for action in (halt, end):
        action.add_argument("--why", default="", metavar="TEXT", help="reason, for other operators")
    for action in (status, halt, end, resumed):
        action.add_argument("id", metavar="RELEASE", help="start of its id")


def _create(device: Device, options: argparse.Namespace) -> int:
    scope = pick_scope(device, options.group, fleet=options.fleet)
    patience_us = read_us("--patience", options.patience, _LONGEST_US, 1_000_000)
    soak_us = read_us("--soak", options.soak, _LONGEST_US)
    waves, stop = read_waves(options.waves), _percent(options.stop_at)
    health_us = _seen_within_us(options.health)
    planned = plan_release(device, scope.groups, options.selector, waves, stop, patience_us, soak_us, health_us)
    if scope.fleet:
        personal_group(device)  # a mistake is told before the file is offered anywhere
    bases = [None if options.base is None else pick_offer(device, group, options.base) for group, _ in planned]
    check_room(device, Path(options.file), len(planned))
    with sealed_files(device) as sealed:
        parts = [
            PlannedPart(group, plan, *_sealed(device, group, base, sealed, options))
            for (group, plan), base in zip(planned, bases, strict=True)
        ]
        found = begin(device, scope, options.installer, parts, options.selector)
    return _follow(device, scope, found, as_json=options.json)


def _sealed(
    device: Device,
    manifest: GroupManifest,
    base: GroupFile | None,
    sealed: list[SealedFile],
    options: argparse.Namespace,
) -> tuple[SealedFile, SealedFile | None]:
    """Seal the file, and a patch if that is asked for and worth it, for a group; note both in `sealed`."""
    file, patch = seal_with_progress(device, manifest, Path(options.file), options.name), None
    sealed.append(file)
    if base is not None:
        patch = seal_patch_with_progress(device, base, file)
        if patch is not None:
            sealed.append(patch)
        if not options.json:
            print(patch_text(file.file, base.file, None if patch is None else patch.file))
    return file, patch


def _resume(device: Device, options: argparse.Namespace) -> int:
    scope = read_scope(device, options.group, fleet=options.fleet)
    stop = None if options.stop_at is None else _percent(options.stop_at)
    _complete(device, scope, options.id)
    found = resume(device, scope.groups, options.id, stop, accept=options.accept_failures)
    return _follow(device, scope, found, as_json=options.json)


def _complete(device: Device, scope: Scope, name: str) -> None:
    """Announce a release of this person's in the groups that lack it."""
    known = find_plan(device, scope.groups, name)
    if known is None or known.once is None or known.kept is None:
        return
    if names := [each.hex()[:8] for each in absent(device, known)]:
        which = ", ".join(names)
        print(
            f"warning: not an operator in {which}, or not of your fleet: the waves leave out their devices",
            file=sys.stderr,
        )
    with ProgressLine() as line:
        announced = announce_release(device, known, lambda done: line.show(f"file: {size_text(done)}"))
    if announced:
        where = ", ".join(group.group_id.hex()[:8] for group in announced)
        print(f"announced in {count(len(announced), 'group')} that lacked it: {where}", file=sys.stderr)


def _pause(device: Device, options: argparse.Namespace) -> None:
    scope = read_scope(device, options.group, fleet=options.fleet)
    _print(device, pause(device, scope, options.id, options.why), as_json=options.json)


def _abort(device: Device, options: argparse.Namespace) -> None:
    scope = read_scope(device, options.group, fleet=options.fleet)
    _print(device, abort(device, scope, options.id, options.why), as_json=options.json)


def _seen_within_us(text: str) -> int | None:
    """Return within which time a device must have been seen; None: judge by its heartbeats, 0: any time."""
    how, _, within = text.partition(":")
    if how == "seen" and within:
        return read_us("--health seen", within, _LONGEST_US, _MINUTE_US)
    if text not in {"seen", "reported"}:
        raise UsageError(f"--health: '{text[:32]}' is not a health check", hint="for example --health seen:10m")
    return None if text == "seen" else 0


def _percent(text: str) -> int:
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 3 or int(digits) > 100:
        raise UsageError(f"--stop-at: '{text[:32]}' is not a percentage", hint="for example --stop-at 2%")
    return int(digits)


def _follow(device: Device, scope: Scope, found: Release, *, as_json: bool) -> int:
    """Start each wave when it is ready, and print the result."""
    if not as_json:
        print(
            f"release {found.id[:8]}; if this command ends early, continue: covey release resume {found.id[:8]}",
            flush=True,
        )
        if found.state == "awaits approval":
            print(_agreement(found), flush=True)
    looked_at = 0.0

    def over() -> bool:
        nonlocal found, looked_at
        if time.monotonic() - looked_at >= _LOOK_S:
            looked_at, found = time.monotonic(), release(device, scope.groups, found.id)
            line.show(_summary(found))
        return found.state not in _WAITS

    def what_stays() -> str:
        return f"devices that have it continue; to start further waves: covey release resume {found.id[:8]}"

    with explained_interruption(what_stays), ProgressLine(plain=True) as line:
        line.show(_summary(found))
        while found.state in {*_WAITS, "ready"}:
            if wait_until(device, over, _MINUTE_S) and found.state in {"ready", "stopped"}:
                found = go_on(device, scope.groups, found.id)
    _print(device, found, as_json=as_json)
    return 0 if found.state == "finished" else 1


def _agreement(found: Release) -> str:
    missing = count(found.needed - len(found.signers), "more operator")
    return f"{missing} must approve it: covey order approve {found.id[:8]}"


def _summary(found: Release) -> str:
    done = sum(each.outcome == "done" for each in found.devices)
    parts = [f"wave {found.waves_given}: {done} of {len(found.devices)} done"]
    parts += [f"{len(found.failed)} failed"] * bool(found.failed)
    parts += [f"{len(found.silent)} silent"] * bool(found.silent)
    parts += [f"{len(found.accepted)} failures accepted"] * bool(found.accepted)
    parts += [f"{len(found.withdrawn)} cancelled"] * bool(found.withdrawn)
    parts += [f"{count(found.others, 'device')} left"] * bool(found.others)
    return ", ".join([*parts, found.state])


def _status(device: Device, options: argparse.Namespace) -> None:
    scope = read_scope(device, options.group, fleet=options.fleet)
    _print(device, release(device, scope.groups, options.id), as_json=options.json)


def _print(device: Device, found: Release, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(found))
        return
    print_fields(
        {
            "release": found.id,
            "what": found.what,
            "for": named_selector(device, found.selector) + _places(found),
            "waves": f"{', '.join(found.waves)}; stops if more than {found.stop_percent}% of a wave fail",
            "started": date_text(found.began_at_us),
            "state": _summary(found),
            **{name: ", ".join(each) for name, each in (("failed", found.failed), ("silent", found.silent)) if each},
        },
        8,
    )
    for word in found.said:
        why = f": {printable(word.why, MAXIMUM_RELEASE_WHY_BYTES)}" if word.why else ""
        where = f" in {', '.join(each[:8] for each in word.groups)}" if len(word.groups) < len(found.groups) else ""
        print(f"{date_text(word.at_us)}  {word.state} by {word.by}{where}{why}")
    if hint := _hint(found):
        print(hint)
    print()
    print_table(*device_rows(found.devices))


def _places(found: Release) -> str:
    if len(found.groups) < 2:
        return ""
    missing = f", no order here of {', '.join(each[:8] for each in found.missing)}" if found.missing else ""
    return f" in {count(len(found.groups), 'group')}{missing}"


def _hint(found: Release) -> str:
    """Return what a person can do about the state of a release."""
    match found.state:
        case "awaits approval":
            return _agreement(found)
        case "stopped":
            return f"to continue despite these failures: covey release resume {found.id[:8]} --accept-failures"
        case "paused":
            return f"to continue: covey release resume {found.id[:8]}"
        case "under way" if found.missing or not found.devices:
            what = "orders for some groups have not come yet" if found.devices else "no device is known to have it"
            end = "resume" if found.missing else "abort"
            return f"{what}; if the device that gave it is lost: covey release {end} {found.id[:8]}"
    return ""


def _list(device: Device, options: argparse.Namespace) -> None:
    found = releases(device, read_scope(device, options.group, fleet=options.fleet).groups)
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print("no releases")
    else:
        rows = [
            (
                each.id[:8],
                date_text(each.began_at_us),
                each.action,
                named_selector(device, each.selector) + _places(each),
                _summary(each),
            )
            for each in found
        ]
        print_table(["release", "started", "action", "for", "progress"], rows)
