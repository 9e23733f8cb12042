"""What can this one device read on its broker that it should not? Asked with its own credential, for `covey check`.

1. Nothing of the device is touched: its session stays, what waits there is not acknowledged, and every subscription
   made here is ended here. But the broker knows one client of a name: only who holds the relay's lock may ask.
2. Nothing is concluded from grants, only from what comes. Subscriptions ask for QoS 0: what waits is not in the way.
3. What is published goes to an inbox that nobody has: its name is drawn by chance.

`broker_examination` tries far more, with identities made for it.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from covey.adapters.mqtt.visitor import Place, Visitor
from covey.core.wire.topics import inbox_topic
from covey.errors import RelayError

_SESSION_S = 7 * 86_400
_GRACE_S = 1.0
"""A broker that has answered a publish delivers it at once; a second is for a busy one."""


@dataclass(frozen=True, slots=True)
class Openings:
    """What a device can do on its broker: write to others' inboxes, read them, read what the broker says of itself."""

    writes: bool
    overhears: bool
    statistics: bool


def look_around(place: Place, user_name: str, password: str) -> Openings:
    """Try what a curious device would.

    Raises:
        RelayError: the broker does not let us in, or does not answer.
    """
    foreign = inbox_topic(secrets.token_bytes(32))
    prefix = foreign.rpartition("/")[0]
    topics = [foreign, f"{prefix}/+", "#", f"$share/covey-check/{foreign}", "$SYS/#"]
    guest = _Guest(place, user_name, password, client_id=user_name, clean=False, session_s=_SESSION_S)
    try:
        if guest.refusal:
            raise RelayError(f"the relay refuses this device: {guest.refusal}", hint="covey relay --password-file -")
        for topic in topics:
            guest.try_topic(topic)
        writes = guest.publish(foreign, secrets.token_bytes(32))
        heard = guest.heard_within(_GRACE_S) - {f"{prefix}/{user_name}"}
        for topic in topics:
            guest.leave_topic(topic)
        statistics = {topic for topic in heard if topic.startswith("$SYS/")}
        return Openings(writes, bool(heard - statistics), bool(statistics))
    finally:
        guest.close()


class _Guest(Visitor):
    """A visitor in a device's own name, who leaves everything as it was."""

    def try_topic(self, topic: str) -> None:
        """Subscribe with QoS 0, whatever the answer."""
        self._answer(self._client.subscribe(topic, qos=0)[1])

    def leave_topic(self, topic: str) -> None:
        """End that."""
        self._answer(self._client.unsubscribe(topic)[1])

    def heard_within(self, seconds: float) -> set[str]:
        """Return the topics of which something comes."""
        deadline = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() > deadline, "keep the connection")
        return {topic for topic, _ in self._messages}

    def _new_client(self, client_id: str) -> Any:
        client = super()._new_client(client_id)
        client.manual_ack_set(True)

        def unsubscribed(_client: object, _data: object, mid: int, reasons: list[Any], _properties: object) -> None:
            self._note(mid, reasons[0])

        client.on_unsubscribe = unsubscribed
        return client
