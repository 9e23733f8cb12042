"""Joins a device's settings about mailboxes and its agent's roles. Loaded only where a setting asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.mailbox_wakes import WakeCaller
from covey.app.relays.mailbox_role import BeingWoken, MailboxRole
from covey.core.mailbox.messages import Hook
from covey.core.mailbox.records import WakeHook
from covey.errors import ConfigurationError
from covey.limits.mailbox import MAXIMUM_HOOK_BYTES
from covey.limits.units import MIB

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole

_BY_NAME = {"mqtt": Hook.MQTT, "program": Hook.PROGRAM}


def mailbox_roles(device: Device, *, serve: bool) -> list[AgentRole]:
    """Return the roles of a mailbox, and of a device that wants to be woken by one.

    Raises:
        ConfigurationError: a hook, address or program that is none.
    """
    settings = device.config.mailbox
    roles: list[AgentRole] = []
    if serve:
        caller = WakeCaller(settings.wake_webhooks, settings.wake_program, report)
        maximum = settings.maximum_mib * MIB
        roles.append(MailboxRole(device.store, maximum, caller.wake, report, by_topic=settings.wake_topics))
    if settings.wake:
        roles.append(BeingWoken(tuple(map(_hook, settings.wake))))
    return roles


def _hook(text: str) -> WakeHook:
    if text in _BY_NAME:
        return WakeHook(_BY_NAME[text], text)
    if not text.startswith("https://") or len(text.encode()) > MAXIMUM_HOOK_BYTES:
        raise ConfigurationError(f"mailbox.wake: '{text}' is neither mqtt, program nor an address of https://")
    return WakeHook(Hook.WEBHOOK, text)
