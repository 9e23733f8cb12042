"""Open the device that the shared options (--state, --config, --passphrase-file) name."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covey.app.device import device

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from covey.adapters.state_folder import StateFolder
    from covey.app.api.device_api import DeviceApi


def state_folder(options: argparse.Namespace) -> StateFolder:
    return device.find_state(options.state, options.config, getattr(options, "passphrase_file", None))


def open_device(options: argparse.Namespace) -> AbstractContextManager[device.Device]:
    """Open the device that the options name.

    Raises:
        ConfigurationError: no device here, or its files are wrong.
        StorageError: the database cannot be opened.
    """
    return device.open_device(state_folder(options))


def ask_to_restart(folder: StateFolder, setting: str = "") -> None:
    """Say that a changed setting applies from the next start of the agent or of alerts, if that runs."""
    if setting.startswith("alerts."):
        if folder.locks.alerts_are_watched():
            print("restart covey alert watch: it reads its configuration when it starts", file=sys.stderr)
    elif folder.locks.agent_runs():
        print("restart the agent to read the new configuration", file=sys.stderr)


@contextmanager
def device_api(options: argparse.Namespace) -> Iterator[DeviceApi]:
    """Reach the device that the options name: through its agent if one answers, else by opening its state.

    Raises:
        AgentUnreachableError: this user may neither ask the agent nor read the state.
        ConfigurationError: no device here, or its files are wrong.
        StorageError: the database cannot be opened.
    """
    from covey.app.api.answering_agent import answering_agent  # an agent asks no agent: it need not load an HTTP client
    from covey.app.api.opened_device import OpenedDevice

    agent = answering_agent(state_folder(options), named=bool(options.state or options.config))
    if agent is not None:
        yield agent
        return
    with open_device(options) as opened:
        yield OpenedDevice(opened)


def on_device(
    act: Callable[[device.Device, argparse.Namespace], int | None],
) -> Callable[[argparse.Namespace], int | None]:
    """Return an action that opens its device before it acts, and closes it afterwards."""

    @functools.wraps(act)
    def opened(options: argparse.Namespace) -> int | None:
        with open_device(options) as found:
            return act(found, options)

    return opened
