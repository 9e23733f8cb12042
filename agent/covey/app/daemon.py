"""A device's agent: one process at a time, with its roles and its local API, until a signal ends it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covey.adapters.systemd import Systemd
from covey.app.relay_loop import speak_with_relay, stop_signals
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.runtime import AgentRole

_POLL_S = 0.1
_PROBE_S = 0.5
"""A command that asks whether an agent runs holds the agent's lock for a moment."""
_YIELD_S = 10.0
"""A command that waits notices a starting agent within a second; then it lets go of the relay."""


def run_agent(device: Device, roles: Sequence[AgentRole], *, lands_telemetry: bool = False) -> None:
    """Be the agent on this state until SIGTERM or Ctrl-C.

    Raises:
        ConfigurationError: no relay is set, or the local API's socket cannot be there.
        LocalError: an agent runs already on this state.
    """
    agent_lock = _lock_within(device.folder.lock_agent, _PROBE_S)
    if agent_lock is None:
        raise LocalError("an agent runs already on this state", hint="'covey status' shows what it does")
    relay_lock = _lock_within(device.folder.lock_relay, _YIELD_S)
    if relay_lock is None:
        raise LocalError("another covey command does not let go of the relay", hint="end it, then start again")
    try:
        with stop_signals() as early, _local_api(device):
            device.folder.state_file.change_mark(device.store)
            speak_with_relay(device, roles, lambda: bool(early), lands_telemetry=lands_telemetry, supervisor=Systemd())
            device.folder.state_file.change_mark(device.store)
    finally:
        os.close(relay_lock)
        os.close(agent_lock)


@contextmanager
def _local_api(device: Device) -> Iterator[None]:
    """Serve the local API where the configuration names a socket."""
    name = device.config.api.socket
    if not name:
        yield
        return
    from covey.app.api import serve

    api = serve(device, device.folder.path / name)
    try:
        yield
    finally:
        api.close()


def _lock_within(lock: Callable[[], int | None], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (descriptor := lock()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return descriptor
