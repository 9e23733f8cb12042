"""Whether the sensors that the configuration names are well described, and measure."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, ok, warning
from covey.app.wording import count, duration

_NAMED = 8


def sensors(device: Examined) -> Iterator[Seen]:
    """The sensors that the configuration names: an agent reads them all."""
    entries = device.folder.configuration.sensors()
    if not entries:
        yield Level.SKIPPED, "the configuration names no [[sensor]]", ""
        return
    if not device.status.running:
        yield ok(f"{count(len(entries), 'sensor')} well described; the agent that reads them is not running")
        return
    known = {each.name: each for each in device.status.sensors}
    measuring = []
    for entry in entries:
        found = known.get(entry.name)
        if found is None:
            yield warning(
                f"{entry.name} is not read yet", "restart the agent: it reads its configuration when it starts"
            )
        elif found.failing:
            yield warning(
                f"{entry.name}: {found.state}, for {duration(found.seconds)}", f"covey sensor try {entry.name}"
            )
        else:
            measuring.append(entry.name)
    if measuring:
        more = ", ..." if len(measuring) > _NAMED else ""
        yield ok(f"{count(len(measuring), 'sensor')} measuring: {', '.join(measuring[:_NAMED])}{more}")
