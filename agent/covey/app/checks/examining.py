"""What `covey check` looks at: the list of all checks, in their order, and how they are run.

A check is a small function in the file of its subject.

1. A check yields findings; an error of ours that it raises is a finding, too, with its own hint.
2. A check is skipped when one that it needs has found an error: one cause, one line.
3. Nothing is changed but what any command changes (a database is brought up to the newest tables).
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Check, Examined, Finding, Level
from covey.app.checks.groups import agreement, group, history
from covey.app.checks.machine import agent, api, clock, configuration, database, disk, identity, secrets, versions
from covey.app.checks.messages import content, mailbox, outbox, troubles
from covey.app.checks.orders import actions, attempts, installers, operators, releases
from covey.app.checks.relays import acl, credential, duplicate, relay, relay_accounts, served_relay
from covey.app.checks.telemetry import boards, doors, sensors, vault
from covey.errors import CoveyError

_STATE = frozenset({"configuration", "identity"})
_STORE = _STATE | {"database"}


CHECKS = (
    Check(versions),
    Check(identity),
    Check(configuration),
    Check(secrets, _STATE),
    Check(clock),
    Check(disk, _STATE),
    Check(database, _STATE),
    Check(agent, _STATE),
    Check(api, _STATE),
    Check(group, _STORE),
    Check(agreement, _STORE),
    Check(history, _STORE),
    Check(operators, _STORE),
    Check(attempts, _STORE),
    Check(actions, _STATE),
    Check(installers, _STORE),
    Check(releases, _STORE),
    Check(outbox, _STORE),
    Check(mailbox, _STORE),
    Check(content, _STORE),
    Check(troubles, _STORE),
    Check(vault, _STORE),
    Check(boards, _STORE),
    Check(served_relay, _STATE),
    Check(relay_accounts, _STORE),
    Check(sensors, _STORE),
    Check(doors, _STATE),
    Check(duplicate, _STORE),
    Check(relay, frozenset({"configuration"}), online=True),
    Check(credential, _STORE | {"relay", "secrets"}, online=True),
    Check(acl, frozenset({"credential"}), online=True),
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
