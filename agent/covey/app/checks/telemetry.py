"""Checks of readings: boards answer, configured sensors measure, the vault has room, and doors send readings on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from covey.adapters.services import hint_for
from covey.app.boards.unnamed_boards import CANNOT_START_HINT
from covey.app.checks.findings import LEAST_FREE_BYTES, Examined, Level, Seen, error, ok, warning
from covey.app.telemetry.collecting import vault_place
from covey.app.wording import count, dropped_text, duration, size_text
from covey.core.group.device_labels import DeviceLabels
from covey.core.telemetry.drops import Drop
from covey.limits.doors import DOOR_STANDS_SECONDS
from covey.ports import UDP_PREFIX

_NAMED = 8
_MENDED = "correct its covey.json, sensors or firmware, then: covey mcu reset"
_COPIED = "on the copy: mpremote rm :identity.key, then covey mcu reset, and covey mcu enrol"


def boards(device: Examined) -> Iterator[Seen]:
    """The boards on this machine's ports: there, answering, enrolled."""
    known = device.status.boards
    if not known:
        yield Level.SKIPPED, "no board has been seen", ""
    for board in known:
        device_file, is_serial = Path(board.port), not board.port.startswith(UDP_PREFIX)
        if is_serial and not device_file.exists():
            yield warning(f"{board.port} is gone", "plug the board in; on another port Covey finds it there")
        elif is_serial and not os.access(device_file, os.R_OK | os.W_OK):
            yield error(f"{board.port} cannot be opened", "let the agent's user open it: sudo adduser covey dialout")
        elif board.trouble:
            is_copied = any(each.up and each.device == board.device and each is not board for each in known)
            hint = (_COPIED if is_copied else _MENDED) if board.device else CANNOT_START_HINT
            yield warning(f"the board on {board.port} reports: {board.trouble}", hint)
        elif not board.up:
            yield warning(f"the board on {board.port} is silent", "reset it, or unplug it for a moment")
        elif not board.enrolled:
            yield warning(f"the board on {board.port} has no collector", "add it: covey mcu enrol")
        else:
            yield ok(f"{board.port}: {board.software}")


def sensors(device: Examined) -> Iterator[Seen]:
    """The sensors that the configuration names: an agent reads them all."""
    entries = device.folder.configuration.sensors()
    if not entries:
        yield Level.SKIPPED, "the configuration has no [[sensor]]", ""
        return
    if not device.status.running:
        yield ok(f"{count(len(entries), 'sensor')} configured correctly, but the agent is not running")
        return
    known = {each.name: each for each in device.status.sensors}
    measuring = []
    for entry in entries:
        found = known.get(entry.name)
        if found is None:
            yield warning(f"{entry.name} is not read yet", "restart the agent to read the new configuration")
        elif found.failing:
            yield warning(
                f"{entry.name}: {found.state}, for {duration(found.seconds)}", f"covey sensor try {entry.name}"
            )
        elif found.is_silent:
            yield warning(
                f"{entry.name} is open but gave no reading for {duration(found.seconds)}",
                f"check that a device sends to it: covey sensor try {entry.name}",
            )
        elif found.up:
            measuring.append(entry.name)
        if found is not None and found.dropped:
            hint = "docs/reference/doors.md explains each reason"
            yield warning(f"{entry.name}{dropped_text(found.dropped)}", hint)
    if measuring:
        more = ", ..." if len(measuring) > _NAMED else ""
        yield ok(f"{count(len(measuring), 'sensor')} measuring: {', '.join(measuring[:_NAMED])}{more}")


def doors(device: Examined) -> Iterator[Seen]:
    """The doors that the configuration names: `covey door run` opens them all."""
    entries = device.folder.configuration.doors()
    if not entries:
        yield Level.SKIPPED, "the configuration has no [[door]]", ""
        return
    from covey.app.telemetry.doors import door_statuses

    found = door_statuses(device.folder)
    if not found[0].runs:
        yield warning(
            f"{count(len(found), 'door')} configured, but no process forwards readings",
            hint_for("covey-door", "sudo systemctl enable --now {unit}", "covey door run"),
        )
        return
    now_us, sending = device.clock.wall_us(), []
    for each in found:
        since_us = each.failing_since_us
        seconds = 0 if since_us is None else max(0, now_us - since_us) // 1_000_000
        if each.attempts:
            line = f"{each.name} has forwarded nothing for {duration(seconds)}: {each.error}"
            stands = seconds >= DOOR_STANDS_SECONDS
            yield (error if stands else warning)(
                line, f"covey door test {each.name}; stored readings stay in the vault"
            )
        else:
            sending.append(each.name)
        if each.history is not None and each.history.attempts:
            yield warning(
                f"{each.name} imports no late readings: {each.history.error}",
                "covey door status; they wait, and current readings are sent",
            )
        if lost := {reason: number for reason, number in each.dropped.items() if reason != Drop.VALUE}:
            yield warning(f"{each.name}{dropped_text(lost)}", "docs/reference/doors.md lists what each door accepts")
        if each.gaps:
            yield warning(f"{each.name} has skipped {count(each.gaps, 'part')} of the vault", "covey door status")
    if sending:
        yield ok(f"{count(len(sending), 'door')} forwarding: {', '.join(sending)}")


def vault(device: Examined) -> Iterator[Seen]:
    """A collector's vault: there and writable, with room; and what keeps it from taking data, or has taken some."""
    from covey.app.checks.status import troubles_of_vault

    place = vault_place(device.opened)
    folder = device.folder.path / place
    labels = DeviceLabels(device.opened.node.groups.joined())
    for trouble in troubles_of_vault(device.opened.store, labels, device.clock.wall_us()):
        yield warning(trouble, "covey vault status")
    if not device.folder.has_vault_key:
        yield Level.SKIPPED, "this device is not a collector", ""
    elif "://" in place:
        yield ok(f"{place}, {size_text(device.status.landing_bytes)} waiting to be stored")
    elif not folder.is_dir() or not os.access(folder, os.W_OK):
        yield error(
            f"{folder} cannot be written", "check that its disk is mounted and that it belongs to the agent's user"
        )
    elif shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        yield error(f"{folder}: no room left", "free some space; senders keep their data until then")
    else:
        yield ok(f"{folder}, {size_text(device.status.landing_bytes)} waiting to be stored")
