"""Whether this device can do what its owner lets operators have done."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import count
from covey.errors import ActionError, ConfigurationError

if TYPE_CHECKING:
    from covey.core.actions.definition import ActionDefinition

_NAMED = 8


def actions(device: Examined) -> Iterator[Seen]:
    """The actions that are allowed: defined, their programs there, and with the rights that they need."""
    from covey.adapters.unit_programs import UnitPrograms
    from covey.app.orders.owners_actions import allowed_commands, owners_action

    allowed, folder = device.configuration.config.operations.commands, device.folder
    if not allowed:
        yield Level.SKIPPED, "its owner lets operators have nothing done", ""
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
        yield ok(f"operators may have {count(len(fine), 'action')} done{where}: {', '.join(fine[:_NAMED])}{more}")


def _program(found: ActionDefinition, roots: Collection[str] | None, agent: int, *, packaged: bool) -> Seen | None:
    """Return what is wrong with an action's program; None: nothing. `roots` is root's list where units are enabled."""
    from covey.app.orders.action_programs import UNIT, needs_unit
    from covey.core.actions.definition import UnitRights

    program = found.argv[0]
    if not program.startswith("/"):  # the agent's own
        return None
    if not (Path(program).is_file() and os.access(program, os.X_OK)):
        return warning(f"{found.name}: {program} is no program that can be run", "install it, or mend the definition")
    if roots is None and (needs_unit(found.rights, agent) or (packaged and found.rights != UnitRights())):
        hint = (
            f"sudo systemctl enable --now {UNIT}" if packaged else "define it without [unit] user, or run the agent so"
        )
        return warning(f"{found.name} needs rights that the agent does not have", hint)
    if roots is not None and found.name not in roots:
        return warning(
            f"{found.name} is refused: root does not list it", "operations.commands in /etc/covey/conf.d/commands.toml"
        )
    return None
