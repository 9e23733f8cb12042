"""The agent of a device: one process with its roles and its local API, until a signal ends it.

If a setting given by an operator needs a restart, the agent restarts inside the same process: it closes what is open,
as after a signal, but keeps its locks and the identity. So no other process gets in between, nobody is asked for a
passphrase, and the service manager sees no exit. An agent that obeys nobody loads nothing of orders;
`pins.FirstOperator` notices when the first operator is pinned, and restarts it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from covey.adapters.journal import report, set_least
from covey.adapters.process_writes import ProcessWrites
from covey.adapters.systemd import Systemd
from covey.adapters.wake_pipe import WakePipe
from covey.app.agent.freed_memory import FreedMemory
from covey.app.device.device import device_on
from covey.app.device.pins import FirstOperator, somebody_is_pinned
from covey.app.device.shared_commits import SharedCommits
from covey.app.device.storage_writes import StorageWrites
from covey.app.fleet.keeping import FleetKeeper
from covey.app.groups.own_devices import own_devices_role
from covey.app.groups.whole_chain import WholeChain
from covey.app.history.roles import forgetting_role, signing_role
from covey.app.loop.relay_loop import speak_with_relay, stop_signals
from covey.app.orders.moved_devices import MovedDevices
from covey.app.pairing.replacing import ReplacementsRole
from covey.core.actions.moves import MovePhase
from covey.errors import ConfigurationError, LocalError, StorageError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.core.crypto import Identity


_POLL_S = 0.1
_PROBE_S = 0.5
"""A command that asks whether an agent runs holds the agent's lock for a moment."""
_YIELD_S = 10.0
"""A waiting command notices a starting agent within a second, and then releases the relay."""


def run_agent(
    folder: StateFolder, roles: Callable[[Device], Sequence[AgentRole]], *, lands_telemetry: bool = False
) -> None:
    """Be the agent on this state until SIGTERM or Ctrl-C, with these roles on the device each time that it is opened.

    Raises:
        ConfigurationError: no device here, no relay is set, or the local API's socket cannot be there.
        LocalError: an agent runs already on this state.
        StorageError: the database cannot be opened.
    """
    identity, writes = folder.identity(), ProcessWrites()
    try:
        with _agent_locks(folder):

            def counted(device: Device) -> Sequence[AgentRole]:
                return [*roles(device), StorageWrites(device.store, writes, device.now())]

            while _ran_until_restart(folder, identity, counted, lands_telemetry=lands_telemetry):
                report("notice", "restarting with the settings that operators set")
    finally:
        identity.wipe()


def _ran_until_restart(
    folder: StateFolder, identity: Identity, roles: Callable[[Device], Sequence[AgentRole]], *, lands_telemetry: bool
) -> bool:
    restart = _Restart(Systemd())
    with device_on(folder, identity, folder.configuration.restored()) as device:
        commands = somebody_is_pinned(device) and device.config.operations.commands
        if not commands and device.store.commands.obeyed_groups():
            from covey.app.orders.command_role import end_obeying

            end_obeying(device)
        if not _has_obeyed(device):  # most devices never do, and spare the memory

            def watching(device: Device) -> Sequence[AgentRole]:
                return [*roles(device), FirstOperator(lambda: somebody_is_pinned(device), restart.ask)]

            return _run(device, watching, restart, lands_telemetry=lands_telemetry)
        from covey.app.orders.attempts import OrderAttempts, attempts
        from covey.app.orders.setting_role import give_back, settings_role, write_layer_at_start

        if write_layer_at_start(device):
            return True

        def obeying(device: Device) -> Sequence[AgentRole]:
            own = roles(device)
            attempts_role = OrderAttempts(lambda group: attempts(device, group), device.store, report)
            ordered: list[AgentRole] = [settings_role(device, restart.ask), attempts_role]
            if commands or _is_under_way(device):  # a move that has begun ends, even if no operator is obeyed any more
                from covey.app.orders.command_role import commands_role

                ordered.append(commands_role(device, restart.ask, own))
            return [*own, *ordered]

        try:
            return _run(device, obeying, restart, lands_telemetry=lands_telemetry)
        except ConfigurationError as error:
            if not give_back(device, str(error)):
                raise
            report("error", f"{error}; the operators' earlier settings apply again")
            return True


def _has_obeyed(device: Device) -> bool:
    store = device.store
    left = store.ordered_settings.all() or _is_under_way(device) or device.folder.configuration.ordered()
    return bool(somebody_is_pinned(device) or left)


def _is_under_way(device: Device) -> bool:
    """Return whether something is on trial here, or the device moves to another group."""
    store = device.store
    moves = any(
        each.phase is not MovePhase.MOVED or device.node.groups.is_in(each.source) for each in store.group_moves.all()
    )
    return moves or bool(store.installations.all())


def _run(
    device: Device, roles: Callable[[Device], Sequence[AgentRole]], restart: _Restart, *, lands_telemetry: bool
) -> bool:
    set_least(device.config.log.level)
    device.live.follow(("log.level",), lambda config: set_least(config.log.level))
    wakes = WakePipe(device.folder.wake_pipe, device.waking.wake)
    commits = SharedCommits(device.store, device.waking.wake)
    with stop_signals() as early, closing(wakes), _local_api(device, commits), closing(commits):
        device.folder.state_file.change_mark(device.store)
        with suppress(StorageError):  # a power cut can have come between what overwrote a secret and its folding
            device.store.fold()
        device.store.content.sweep(device.now().wall_us)
        ended = speak_with_relay(
            device,
            [
                device.ephemeral,
                commits,
                *roles(device),
                signing_role(device),
                forgetting_role(device),
                own_devices_role(device),
                ReplacementsRole(device),
                MovedDevices(device),
                WholeChain(device.store),
                FleetKeeper(device),
                FreedMemory(device.now()),
            ],
            lambda: bool(early) or restart.asked,
            lands_telemetry=lands_telemetry,
            supervisor=restart.supervisor,
        )
        device.folder.state_file.change_mark(device.store)
    return restart.asked and not (ended or early)


class _Restart:
    """Whether a setting asks for a start of the agent; the service manager then hears of no end."""

    def __init__(self, supervisor: Systemd) -> None:
        self.supervisor = supervisor
        self.asked = False

    def ask(self) -> None:
        self.asked = True
        self.supervisor.stays()


@contextmanager
def _agent_locks(folder: StateFolder) -> Iterator[None]:
    agent_lock = _lock_within(folder.locks.agent, _PROBE_S)
    if agent_lock is None:
        raise LocalError("an agent is already running on this state", hint="'covey status' shows it")
    relay_lock = _lock_within(folder.locks.relay, _YIELD_S)
    if relay_lock is None:
        os.close(agent_lock)
        raise LocalError(
            "another command of Covey is using the relay", hint="end that command, then start the agent again"
        )
    try:
        yield
    finally:
        os.close(relay_lock)
        os.close(agent_lock)


@contextmanager
def _local_api(device: Device, commits: SharedCommits) -> Iterator[None]:
    name = device.config.api.socket
    if not name:
        yield
        return
    from covey.app.api.service import serve

    try:
        api = serve(device, commits, device.folder.path / name)
    except StorageError as error:
        report("error", f"no local API: {error}")
        yield
        return
    try:
        yield
    finally:
        api.close()


def _lock_within(lock: Callable[[], int | None], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (descriptor := lock()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return descriptor
