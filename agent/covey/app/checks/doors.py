"""Whether readings are sent on as the configuration says: a door that stands still is said, and what it left behind."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import count, duration
from covey.limits.doors import DOOR_STANDS_SECONDS


def doors(device: Examined) -> Iterator[Seen]:
    """The doors that the configuration names: `covey door run` opens them all."""
    entries = device.folder.configuration.doors()
    if not entries:
        yield Level.SKIPPED, "the configuration names no [[door]]", ""
        return
    from covey.app.telemetry.doors import door_statuses

    found = door_statuses(device.folder)
    if not found[0].runs:
        yield warning(
            f"{count(len(found), 'door')} in the configuration, and nobody sends readings on",
            "systemctl enable --now covey-door, or: covey door run",
        )
        return
    now_us, sending = device.clock.wall_us(), []
    for each in found:
        since_us = each.failing_since_us
        seconds = 0 if since_us is None else max(0, now_us - since_us) // 1_000_000
        if each.attempts:
            line = f"{each.name} has sent nothing on for {duration(seconds)}: {each.error}"
            stands = seconds >= DOOR_STANDS_SECONDS
            yield (error if stands else warning)(
                line, f"covey door test {each.name}; what has landed stays in the vault"
            )
        else:
            sending.append(each.name)
        if each.gaps:
            yield warning(f"{each.name} has passed over {count(each.gaps, 'part')} of the vault", "covey door status")
    if sending:
        yield ok(f"{count(len(sending), 'door')} sending on: {', '.join(sending)}")
