"""Doing one action for the machine's own agent, as root: what `covey-action@.service` runs (docs/how-to/orders.md).

1. Only the agent names an action and arguments. Nothing else that it sends, or can write, counts.
2. The permitted actions are in root's own /etc/covey: `operations.commands` of `config.toml` and `conf.d/*.toml`, and
   definitions in `operations.d`, else Covey's own. Files that others may write are refused.
3. It runs in a unit of its own, and ends with the agent's connection.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from covey.adapters.action_socket import REQUEST_BYTES, ActionAnswer, ActionOutcome, read_request
from covey.adapters.journal import report as report_to_journal
from covey.adapters.state_folder import MACHINE_CONFIG
from covey.adapters.transient_unit import TransientUnit
from covey.app.orders.owners_actions import allowed_commands, owners_action
from covey.config.actions import AGENT, COVEY
from covey.core.actions.definition import Invocation
from covey.core.actions.results import NOT_ALLOWED, NOT_STARTED
from covey.errors import ActionError, ConfigurationError, LocalError
from covey.ports import ProgramEnd, Report

_PEER = struct.Struct("3i")
_REQUEST_S = 10.0


def serve_machine(channel: socket.socket, runtime: Path, unit: str) -> None:
    """Answer one request of this machine's own agent: see `serve`."""
    serve(channel, MACHINE_CONFIG, runtime, unit, report_to_journal)


def serve(channel: socket.socket, folder: Path, runtime: Path, unit: str, report: Report) -> None:
    """Answer one request; `folder` is root's own, `runtime` an empty one of this process, `unit` systemd's name of it.

    Raises:
        LocalError: the requester is not the agent.
        RemoteError: its request is unreadable.
        OSError: it is gone.
    """
    _check_peer(channel)
    channel.settimeout(_REQUEST_S)
    action, arguments, secrets = read_request(channel.recv(REQUEST_BYTES + 1))
    channel.settimeout(None)
    try:
        invocation = _invocation(folder, action, arguments, secrets)
        report("notice", f"running {action} for the agent")
        answer = _answer(TransientUnit(runtime, unit).run(invocation, channel))
    except ActionError as error:
        answer = ActionAnswer(ActionOutcome.REFUSED, code=error.code, why=str(error))
    ended = (
        answer.why
        if answer.outcome is ActionOutcome.REFUSED
        else f"{answer.outcome.name.lower()}, exit code {answer.exit}"
    )
    report("notice", f"{action}: {ended}")
    channel.send(answer.to_wire())


def _check_peer(channel: socket.socket) -> None:
    """Raise unless the other end is the user that systemd gave the socket to."""
    _, user, _ = _PEER.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user != Path(channel.getsockname()).stat().st_uid:
        raise LocalError(f"user {user} is not the agent's user")


def _invocation(folder: Path, action: str, arguments: dict[str, str], secrets: dict[str, str]) -> Invocation:
    try:
        allowed = allowed_commands(folder)
    except ConfigurationError as error:
        raise ActionError(str(error), NOT_ALLOWED, hint=error.hint) from error
    if action not in allowed:
        raise ActionError(f"operations.commands in {folder} does not name {action}", NOT_ALLOWED)
    invocation = owners_action(folder / "operations.d", allowed, action).invocation(arguments, secrets)
    if invocation.argv[0] in {AGENT, COVEY}:
        raise ActionError(f"only the agent itself does {action}", NOT_STARTED)
    return invocation


def _answer(end: ProgramEnd) -> ActionAnswer:
    outcome = (
        ActionOutcome.UNKNOWN if end.code is None else ActionOutcome.TIMED_OUT if end.timed_out else ActionOutcome.ENDED
    )
    return ActionAnswer(outcome, end.code or 0, end.output, end.cut)
