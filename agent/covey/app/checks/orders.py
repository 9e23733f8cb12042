"""Check orders: allowed actions can run, no device without authority gives orders, and updates on trial succeed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.documents import DAY_S
from covey.app.wording import count
from covey.core.actions.installation import InstallationPhase
from covey.core.actions.results import NOT_ROLLED_BACK, ROLLED_BACK
from covey.core.ids import labelled_name
from covey.errors import ActionError, ConfigurationError, LocalError

if TYPE_CHECKING:
    from covey.app.orders.release_reports import Release
    from covey.core.actions.definition import ActionDefinition


_NAMED = 8
_DEVICES_NAMED = 3


def operators(device: Examined) -> Iterator[Seen]:
    """The operators of this device: pinned by its owner, or added by these."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.operators import operators as operators_of

    config = device.configuration.config.operations
    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "this device obeys no operator", ""
        return
    for group in device.opened.node.groups.joined():
        able = sorted(each.label or each.name for each in operators_of(device.opened, group) if each.member)
        name = f"group {group.group_id.hex()[:8]}"
        if len(able) < config.threshold:
            yield warning(
                f"{name}: {count(len(able), 'operator')}, and an order needs {config.threshold}",
                "check that operators are members and their keys are right: covey group operators",
            )
        else:
            named = ", ".join(able[:_DEVICES_NAMED])
            yield ok(f"{name}: {count(len(able), 'operator')} ({named}{', ...' if len(able) > _DEVICES_NAMED else ''})")


def actions(device: Examined) -> Iterator[Seen]:
    """The actions that are allowed: defined, their programs there, and with the rights that they need."""
    from covey.adapters.unit_programs import UnitPrograms
    from covey.app.orders.owners_actions import allowed_commands, owners_action

    allowed, folder = device.configuration.config.operations.commands, device.folder
    if not allowed:
        yield Level.SKIPPED, "operators may run no actions here", ""
        return
    roots: Collection[str] | None = None
    if (
        folder.action_socket is not None
        and folder.configuration.machine
        and UnitPrograms(folder.action_socket).answer()
    ):
        try:
            roots = allowed_commands(folder.configuration.machine)
        except ConfigurationError as wrong:
            yield error(str(wrong), wrong.hint)
            return
    fine = []
    for name in allowed:
        try:
            found = owners_action(folder.actions, allowed, name)
        except ActionError as wrong:
            yield error(f"{name}: {wrong}", wrong.hint)
            continue
        seen = _program(found, roots, folder.path.stat().st_uid, packaged=folder.action_socket is not None)
        if seen is None:
            fine.append(name)
        else:
            yield seen
    if fine:
        where = "" if roots is None else ", each in a unit of its own"
        more = ", ..." if len(fine) > _NAMED else ""
        yield ok(f"operators may run {count(len(fine), 'action')}{where}: {', '.join(fine[:_NAMED])}{more}")


def _program(found: ActionDefinition, roots: Collection[str] | None, agent: int, *, packaged: bool) -> Seen | None:
    """Return what is wrong with an action's program; None: nothing. `roots` is root's list where units are enabled."""
    from covey.app.orders.action_programs import UNIT, needs_unit
    from covey.core.actions.definition import UnitRights

    program = found.argv[0]
    if not program.startswith("/"):  # the agent's own
        return None
    if not (Path(program).is_file() and os.access(program, os.X_OK)):
        return warning(f"{found.name}: {program} is not an executable program", "install it, or correct the definition")
    if roots is None and (needs_unit(found.rights, agent) or (packaged and found.rights != UnitRights())):
        hint = (
            f"sudo systemctl enable --now {UNIT}"
            if packaged
            else "remove [unit] user from its definition, or run the agent as that user"
        )
        return warning(f"{found.name} needs rights that the agent does not have", hint)
    if roots is not None and found.name not in roots:
        return warning(
            f"{found.name} is refused: root has not allowed it",
            "add it to operations.commands in /etc/covey/conf.d/commands.toml",
        )
    return None


_RECENT_US = 30 * DAY_S * 1_000_000


def attempts(device: Examined) -> Iterator[Seen]:
    """Last month's orders of devices without authority here."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.attempts import attempts as attempts_in

    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "this device obeys no operator", ""
        return
    since_us, quiet = device.clock.wall_us() - _RECENT_US, True
    for group in device.opened.node.groups.joined():
        recent = [each for each in attempts_in(device.opened, group).entries if each.last_us > since_us]
        for each in sorted(recent, key=lambda each: -each.last_us)[:_DEVICES_NAMED]:
            quiet, first = False, datetime.fromtimestamp(each.first_us / 1_000_000, UTC).date()
            yield warning(
                f"group {group.group_id.hex()[:8]}: {count(each.count, 'order')} by "
                f"{labelled_name(each.name, each.label)} refused since {first}: {each.why}",
                "no device obeys it: covey order refused; if its key was stolen: covey group remove",
            )
    if quiet:
        yield ok("no refused orders in the last 30 days")


def installers(device: Examined) -> Iterator[Seen]:
    """What operators have this device install: on trial, gone back, or neither old nor new."""
    store = device.opened.store
    under_way, last = store.installations.all(), store.commands.last_of_actions()
    for each in under_way:
        if each.phase is InstallationPhase.FETCHING and each.why:
            yield ok(f"{each.action} {each.why} before it installs")
            continue
        phase = each.phase.name.lower().replace("_", " ")
        why = f": {each.why}" if each.why else ""
        yield warning(
            f"{each.action} is still on trial: {phase}{why}", "the trial ends automatically: see 'covey order'"
        )
    quiet = not under_way
    for record in last:
        result, action = record.result, record.command.action
        if result is None or result.code not in {NOT_ROLLED_BACK, ROLLED_BACK}:
            continue
        quiet = False
        if result.code == NOT_ROLLED_BACK:
            yield error(f"{action} is {result.why}", "examine the device, then install a working version")
        else:
            yield warning(f"{action}: {result.why}", "the earlier version is running; release a working version")
    if quiet:
        yield ok("nothing is on trial; the last installation works")


def releases(device: Examined) -> Iterator[Seen]:
    """Releases that an operator's device knows, and that wait for a person."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.fleet import commanded
    from covey.app.orders.release_reports import described, given_releases

    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "this device obeys no operator", ""
        return
    groups = commanded(device.opened)
    if not groups:
        yield Level.SKIPPED, "this device is not an operator", ""
        return
    seen = quiet = 0
    for given in given_releases(device.opened, groups):
        seen += 1
        try:
            each = described(device.opened, given)
        except LocalError as wrong:
            yield warning(f"release {given.once.hex()[:8]}: {wrong}", wrong.hint)
            continue
        if each.state in _WAITS:
            yield warning(*_waits(each))
        else:
            quiet += 1
        if each.missing:
            yield warning(*_incomplete(each))
    if quiet:
        yield ok(f"{count(quiet, 'release')} under way, finished or aborted")
    elif not seen:
        yield ok("no release needs action")


def _incomplete(each: Release) -> tuple[str, str]:
    line = f"release {each.id[:8]}: {count(len(each.missing), 'group')} of {len(each.groups)} lack its order here"
    return line, f"if its first device is lost: covey release resume {each.id[:8]}"


_WAITS = {"stopped", "paused", "ready", "awaits approval"}


def _waits(each: Release) -> tuple[str, str]:
    name, resume = each.id[:8], f"covey release resume {each.id[:8]}"
    match each.state:
        case "stopped":
            bad = ", ".join((*each.failed, *each.silent)[:3])
            line = f"release {name} has stopped: {len(each.failed)} failed, {len(each.silent)} silent: {bad}"
            return line, f"covey release status {name}; {resume} --accept-failures, or covey release abort {name}"
        case "paused":
            last = each.said[-1]
            return f"release {name} is paused by {last.by}" + (f": {last.why}" if last.why else ""), resume
        case "ready":
            return f"release {name} is ready for its next wave, but no device continues it", resume
    return f"release {name} needs the approval of more operators", f"covey order approve {name}"
