"""Whether somebody orders who has no say here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from covey.app.checks.findings import Examined, Level, Seen, ok, warning
from covey.app.documents import DAY_S
from covey.app.wording import count
from covey.core.ids import labelled_name

_RECENT_US = 30 * DAY_S * 1_000_000
_NAMED = 3


def attempts(device: Examined) -> Iterator[Seen]:
    """Orders of the last month by those whom nobody obeys here."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.attempts import attempts as attempts_in

    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "its owner has this device obey nobody", ""
        return
    since_us, quiet = device.clock.wall_us() - _RECENT_US, True
    for group in device.opened.node.groups.joined():
        recent = [each for each in attempts_in(device.opened, group).entries if each.last_us > since_us]
        for each in sorted(recent, key=lambda each: -each.last_us)[:_NAMED]:
            quiet, first = False, datetime.fromtimestamp(each.first_us / 1_000_000, UTC).date()
            yield warning(
                f"group {group.group_id.hex()[:8]}: {count(each.count, 'order')} by "
                f"{labelled_name(each.name, each.label)}, {each.why}, since {first}",
                "nobody obeys it: covey orders refused; its key may be in other hands: covey group remove",
            )
    if quiet:
        yield ok("nobody ordered anything without a say here, within 30 days")
