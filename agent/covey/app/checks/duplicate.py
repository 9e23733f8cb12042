"""Whether another device has the same identity: a card that was copied after it was set up."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Seen, error, ok, warning
from covey.app.loop.takeovers import CopySign, seen_cuts

_COPY = "switch one off; on the copy stop the agent, move its state folder away, and join anew: covey join"


def duplicate(device: Examined) -> Iterator[Seen]:
    """Whether connections to the relay are cut off again and again, and by whom, as far as that is known."""
    seen = seen_cuts(device.opened.store.conditions, device.clock.wall_us())
    if seen.sign is CopySign.CERTAIN:
        yield error(
            f"another device signs in as this one, the last time {seen.age_s} s ago", f"its card was copied: {_COPY}"
        )
    elif seen.sign is CopySign.POSSIBLE:
        yield warning(
            f"the connection to the relay was lost {seen.times} times in a row soon after it came up, "
            f"last {seen.age_s} s ago",
            f"a bad line, or a copy of this machine's card that signs in as this one: {_COPY}",
        )
    else:
        yield ok("no sign of another device that signs in as this one")
