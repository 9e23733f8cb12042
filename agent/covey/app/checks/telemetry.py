"""Checks of readings: configured sensors measure, and doors send readings on."""

from __future__ import annotations

from collections.abc import Iterator

from covey.adapters.services import hint_for
from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import count, dropped_text, duration
from covey.core.telemetry.drops import Drop
from covey.limits.doors import DOOR_STANDS_SECONDS

_NAMED = 8


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
            hint_for("covey-door", "sudo systemctl enable --now covey-door", "covey door run"),
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
        if lost := {reason: number for reason, number in each.dropped.items() if reason != Drop.VALUE}:
            yield warning(f"{each.name}{dropped_text(lost)}", "docs/reference/doors.md lists what each door accepts")
        if each.gaps:
            yield warning(f"{each.name} has skipped {count(each.gaps, 'part')} of the vault", "covey door status")
    if sending:
        yield ok(f"{count(len(sending), 'door')} forwarding: {', '.join(sending)}")
