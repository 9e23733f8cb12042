"""Hand messages to mailboxes, for `covey message send` and `covey mailbox`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.cli.output.terminal import TIME_UP, explained_interruption, print_json
from covey.core.ids import labelled_name

if TYPE_CHECKING:
    from covey.app.api.device_api import DeviceApi
    from covey.app.relays.documents import HandedOver

WAIT_S = 30.0
"""How long mailboxes are waited for, where nobody says."""


def hand_over(device: DeviceApi, to: str | None, seconds: float) -> HandedOver:
    """Hand queued messages to mailboxes, and wait until they have them."""
    stays = "messages that no mailbox holds yet stay queued; to wait again: covey mailbox hand-over"
    with explained_interruption(lambda: stays):
        return device.hand_over(to, seconds)


def report_handed_over(
    device: DeviceApi, found: HandedOver, *, as_json: bool, sent: dict[str, int] | None = None
) -> int:
    """Print the recipients whose messages a mailbox has, and the others; return the exit code. `sent` is added to the
    JSON."""
    labels = {} if as_json and not found.open else {each.device: each.label for each in device.status().members}
    if as_json:
        print_json({**(sent or {}), **to_json(found)})
    else:
        for name in found.handed_over:
            print(f"handed over: messages for {labelled_name(name, labels.get(name, ''))}")
    if found.open:
        names = ", ".join(labelled_name(name, labels.get(name, "")) for name in found.open)
        print(f"error: no mailbox has answered yet for: {names}", file=sys.stderr)
        print("hint: the messages stay queued, and the agent retries; check the relay: covey status", file=sys.stderr)
    return TIME_UP if found.open else 0
