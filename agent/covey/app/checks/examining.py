"""What `covey check` looks at: the list of all checks, in their order, and how they are run.

A check is a small function in the file of its subject.

1. A check yields findings; an error of ours that it raises is a finding, too, with its own hint.
2. A check is skipped when one that it needs has found an error: one cause, one line.
3. Nothing is changed but what any command changes (a database is brought up to the newest tables).
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks import groups, machine, messages, orders, relays, telemetry
from covey.app.checks.findings import Check, Examined, Finding, Level
from covey.errors import CoveyError

_STATE = frozenset({"configuration", "identity"})
_STORE = _STATE | {"database"}


CHECKS = (
    Check(machine.versions),
    Check(machine.identity),
    Check(machine.configuration),
    Check(machine.secrets, _STATE),
    Check(machine.clock),
    Check(machine.disk, _STATE),
    Check(machine.database, _STATE),
    Check(machine.agent, _STATE),
    Check(machine.api, _STATE),
    Check(groups.group, _STORE),
    Check(groups.agreement, _STORE),
    Check(groups.history, _STORE),
    Check(orders.operators, _STORE),
    Check(orders.attempts, _STORE),
    Check(orders.actions, _STATE),
    Check(orders.installers, _STORE),
    Check(orders.releases, _STORE),
    Check(messages.outbox, _STORE),
    Check(messages.mailbox, _STORE),
    Check(messages.content, _STORE),
    Check(messages.troubles, _STORE),
    Check(telemetry.vault, _STORE),
    Check(telemetry.boards, _STORE),
    Check(relays.served_relay, _STATE),
    Check(relays.relay_accounts, _STORE),
    Check(relays.recovery, _STORE),
    Check(telemetry.sensors, _STORE),
    Check(telemetry.doors, _STATE),
    Check(relays.duplicate, _STORE),
    Check(relays.budget, _STORE),
    Check(relays.budgets, _STORE),
    Check(relays.relay, _STATE, online=True),
    Check(relays.credential, _STORE | {"relay", "secrets"}, online=True),
    Check(relays.acl, frozenset({"credential"}), online=True),
)


def examine(device: Examined, *, offline: bool) -> Iterator[Finding]:
    """Yield what every check finds, as it finds it."""
    failed: set[str] = set()
    for check in CHECKS:
        if offline and check.online:
            yield Finding(Level.SKIPPED, check.name, "offline")
            continue
        if blocking := sorted(check.needs & failed):
            failed.add(check.name)
            yield Finding(Level.SKIPPED, check.name, f"needs {', '.join(blocking)}")
            continue
        try:
            for level, line, hint in check.look(device):
                if level is Level.ERROR:
                    failed.add(check.name)
                yield Finding(level, check.name, line, hint)
        except CoveyError as broken:
            failed.add(check.name)
            yield Finding(Level.ERROR, check.name, str(broken), broken.hint)
