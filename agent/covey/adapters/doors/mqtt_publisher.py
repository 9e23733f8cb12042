"""A connection to an MQTT 5 broker that is only published to, with a will; a thread keeps it alive in between."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.mqtt.connection import Connection
from covey.adapters.mqtt.posted import Answered, ConnectionEvent, ServerUp, Will
from covey.adapters.mqtt.settings import ConnectionSettings
from covey.errors import DoorError
from covey.limits.doors import DOOR_SEND_SECONDS, DOOR_UNACKNOWLEDGED
from covey.limits.units import KIB
from covey.ports import PublishRefusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_KEEPALIVE_S = 30
_REFUSED = 0x80
"""Reason codes from here on refuse (MQTT 5, section 2.4)."""
_DELIVERED_BYTES_MAX = 4 * KIB
"""A door reads nothing: this bounds what a hostile broker may send it."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A retained publication; the broker drops it after `expires_s` seconds, 0 for never."""

    topic: str
    payload: bytes
    expires_s: int = 0


class MqttPublisher:
    """One connection, which is made when it is needed."""

    def __init__(
        self, address: tuple[str, int], context: ssl.SSLContext | None, user_name: str, will: Publication
    ) -> None:
        self._address, self._context, self._user_name = address, context, user_name
        self._will = Will(will.topic, will.payload, retain=True)
        self._connection: Connection | None = None
        self._handles = itertools.count(1)
        self._answered = threading.Condition()
        self._is_up = False
        self._taken: set[int] = set()
        self._refused = 0

    @property
    def is_connected(self) -> bool:
        """Whether the broker has let us in, and has not gone since."""
        return self._is_up and self._connection is not None and self._connection.ending is None

    def connect(self, password: str) -> None:
        """Open a new connection.

        Raises:
            DoorError: no connection, or the broker refuses.
        """
        self.close()
        self._is_up, self._refused = False, 0
        settings = ConnectionSettings(
            host=self._address[0],
            port=self._address[1],
            tls=self._context,
            client_id="",
            username=self._user_name or None,
            password=password,
            keepalive_s=_KEEPALIVE_S,
            session_expiry_s=0,
            window=DOOR_UNACKNOWLEDGED,
            payload_bytes_max=_DELIVERED_BYTES_MAX,
            connect_s_max=DOOR_SEND_SECONDS,
            clean_start=True,
        )
        connection = Connection("a door's broker", 1, settings, None, self._handles, self._receive, self._will)
        self._connection = connection
        threading.Thread(target=self._run, args=(connection,), name="door", daemon=True).start()
        if not self._wait(connection, lambda: self._is_up):
            self.close()
            ending = connection.ending
            if ending is not None and ending.error is not None:
                raise DoorError(ending.reason)
            raise DoorError(f"{self._address[0]}: {ending.reason if ending else 'no answer from an MQTT 5 broker'}")

    def publish(self, publications: list[Publication]) -> set[str]:
        """Publish, as many at a time as the broker takes, and return when it has taken all that it can.

        Returns the topics of what is larger than the broker takes: that stops nothing else.

        Raises:
            DoorError: it has not taken the rest.
        """
        self._taken = set()
        handles = {each.topic: self._publish(each) for each in publications}
        sent = {handle for handle in handles.values() if handle is not None}
        self._await(lambda: sent <= self._taken)
        if self._refused:
            self.close()
            raise DoorError(f"{self._address[0]} refused a topic: check that this account may publish there")
        return {topic for topic, handle in handles.items() if handle is None}

    def _publish(self, publication: Publication) -> int | None:
        while (connection := self._connection) is not None:
            answers = len(self._taken)
            handle = connection.publish(publication.topic, publication.payload, publication.expires_s, retain=True)
            match handle:
                case int():
                    return handle
                case PublishRefusal.TOO_LARGE:
                    return None
                case PublishRefusal.WINDOW_FULL:
                    self._await(partial(self._has_answered, answers))
                case _:
                    break
        raise DoorError(f"{self._address[0]} closed the connection", refused=_is_too_large(connection))

    def _has_answered(self, before: int) -> bool:
        return len(self._taken) > before

    def _await(self, condition: Callable[[], bool]) -> None:
        connection = self._connection
        if connection is not None and not self._wait(connection, condition):
            self.close()
            raise DoorError(
                f"{self._address[0]} did not accept the published messages", refused=_is_too_large(connection)
            )

    def close(self) -> None:
        """Leave without a word, so that the broker publishes the will."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()

    def _run(self, connection: Connection) -> None:
        connection.run()
        with self._answered:
            self._answered.notify_all()

    def _receive(self, event: ConnectionEvent) -> None:
        with self._answered:
            match event:
                case ServerUp():
                    self._is_up = True
                case Answered(handle, codes):
                    self._taken.add(handle)
                    self._refused += codes[0] >= _REFUSED
            self._answered.notify_all()

    def _wait(self, connection: Connection, condition: Callable[[], bool]) -> bool:
        with self._answered:
            self._answered.wait_for(lambda: condition() or connection.ending is not None, DOOR_SEND_SECONDS)
            return condition()


def _is_too_large(connection: Connection | None) -> bool:
    """Say whether a broker that announced no limit has left because of a message's size: it will do so again."""
    return connection is not None and connection.ending is not None and connection.ending.too_large
