"""Whether what is installed here on trial stays, and whether releases of this device's groups wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import count
from covey.core.actions.results import NOT_ROLLED_BACK, ROLLED_BACK
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.orders.release_reports import Release


def installers(device: Examined) -> Iterator[Seen]:
    """What operators have this device install: on trial, gone back, or neither old nor new."""
    store = device.opened.store
    under_way, last = store.installations.all(), store.commands.last_of_actions()
    for each in under_way:
        phase = each.phase.name.lower().replace("_", " ")
        why = f": {each.why}" if each.why else ""
        yield warning(f"{each.action} is not installed for good yet: {phase}{why}", "it ends by itself: covey orders")
    quiet = not under_way
    for record in last:
        result, action = record.result, record.command.action
        if result is None or result.code not in {NOT_ROLLED_BACK, ROLLED_BACK}:
            continue
        quiet = False
        if result.code == NOT_ROLLED_BACK:
            yield error(f"{action} is {result.why}", "somebody has to look; then install a version that is well")
        else:
            yield warning(f"{action}: {result.why}", "it runs as before; release a version that is well")
    if quiet:
        yield ok("nothing is on trial, and what was installed last is well")


def releases(device: Examined) -> Iterator[Seen]:
    """Releases that an operator's device knows, and that wait for a person."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.operators import operator_keys
    from covey.app.orders.release_reports import releases as releases_of

    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "its owner has this device obey nobody", ""
        return
    own, finished, is_operator = device.opened.node.identity.signing_public, 0, False
    for group in device.opened.node.groups.joined():
        if own not in operator_keys(device.opened, group):
            continue
        is_operator = True
        try:
            found = releases_of(device.opened, group)
        except LocalError as wrong:
            yield warning(str(wrong), wrong.hint)
            continue
        for each in found:
            if each.state in _WAITS:
                yield warning(*_waits(each))
            else:
                finished += 1
    if not is_operator:
        yield Level.SKIPPED, "this device is no operator", ""
    elif finished:
        yield ok(f"{count(finished, 'release')} under way, finished or aborted")
    else:
        yield ok("no release waits for anybody")


_WAITS = {"stopped", "paused", "ready", "awaits agreement"}


def _waits(each: Release) -> tuple[str, str]:
    """Return what a release waits for, and how it goes on."""
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
            return f"release {name} is ready for its next wave, and nobody gives it", resume
    return f"release {name} awaits more operators to agree", f"covey orders approve {each.wave[:8]}"
