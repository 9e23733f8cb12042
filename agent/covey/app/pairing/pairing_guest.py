"""The joiner's side of pairing, around `core/pairing/joiner.py`: a loop of its own on the relay's enrolment account.

That is the account which all may use who have none. The inviter's counterpart is `pairing_host.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue

from covey.adapters.broker.own_relay import NO_MQTT_5, OLD_SERVER_HINT
from covey.core.pairing.joiner import Joiner, JoinerNews
from covey.core.pake import Side
from covey.core.wire.topics import rendezvous_topic
from covey.errors import LocalError, RelayError, RemoteError
from covey.ports import Clock, Delivered, PublishRefusal, Relay, RelayDown, RelayEvent, RelayUp, Released, Report

_POLL_S = 0.25
_NO_SUBSCRIBERS = 0x10
"""MQTT 5's answer to a message that nobody is subscribed to."""

_LAST_WORDS_US = 3_000_000
"""How long the relay may take to answer what was said last: without it the inviter would wait ten minutes for us."""


def attend(
    machine: Joiner,
    number: int,
    relay: Relay,
    clock: Clock,
    on_news: Callable[[JoinerNews], None],
    report: Report,
    gone: Callable[[], bool] = lambda: False,
    *,
    unreached_us: int | None = None,
    deserted_us: int | None = None,
) -> None:
    """Run the ceremony to its end, which `machine.ending` says; `gone` says that the person has given up.

    `on_news` stores what the inviter gives, and then calls `machine.stored`. A relay that was not reached by then is
    tried no longer than `unreached_us`. A rendezvous at which the relay says that nobody listens is left after
    `deserted_us`; strangers who crowd it do not shorten that, as the inviter is subscribed all the same.

    Raises:
        RelayError: the relay does not let the enrolment account in, or was not reached in time.
        LocalError: nobody listens at the rendezvous.
    """
    begun_us = clock.monotonic_us()
    events: Queue[RelayEvent] = Queue()
    topic = rendezvous_topic(number, Side.INVITER)
    relay.start(events.put)
    connected = False
    published: set[int | PublishRefusal] = set()
    refusals = 0
    deserted_since_us: int | None = None
    once = _Once(report)
    try:
        while machine.ending is None:
            if gone():
                machine.leave()
            try:
                event = events.get(timeout=_POLL_S)
            except Empty:
                event = None
            if isinstance(event, RelayUp):
                connected = True
            elif isinstance(event, RelayDown):
                deserted_since_us = None
                refusals += event.refused
                if not connected:
                    waited_us = clock.monotonic_us() - begun_us
                    over = unreached_us is not None and waited_us >= unreached_us
                    _check_hope(event, refusals, over=over)
                once.warn(event.reason, f"relay: {event.reason}")
            elif isinstance(event, Delivered):
                _take(machine, event, relay, clock, once)
            elif isinstance(event, Released):
                published.discard(event.handle)
                now_us = clock.monotonic_us()
                is_received = event.reason_code != _NO_SUBSCRIBERS or machine.answered
                deserted_since_us = None if is_received else deserted_since_us or now_us
                if (
                    deserted_us is not None
                    and deserted_since_us is not None
                    and now_us >= deserted_since_us + deserted_us
                ):
                    raise LocalError(
                        "no device waits for this code: it was used or cancelled, or its ten minutes are over",
                        hint="ask for a new code: covey invite; each device needs its own",
                    )
            while (news := machine.next_event()) is not None:
                on_news(news)
            machine.handle_deadline(clock.monotonic_us())
            for message in machine.messages_to_send(clock.monotonic_us()) if connected else ():
                published.add(relay.publish(topic, message))
        _await_answers(events, published, clock)
    finally:
        relay.stop()


def _await_answers(events: Queue[RelayEvent], published: set[int | PublishRefusal], clock: Clock) -> None:
    published.difference_update(PublishRefusal)
    deadline_us = clock.monotonic_us() + _LAST_WORDS_US
    while published and (left_us := deadline_us - clock.monotonic_us()) > 0:
        with suppress(Empty):
            event = events.get(timeout=left_us / 1_000_000)
            if isinstance(event, Released):
                published.discard(event.handle)
            elif isinstance(event, RelayDown):
                return


class _Once:
    """Says each kind of thing once: a crowd must not scroll away what the person is to read."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: set[str] = set()

    def warn(self, kind: str, line: str) -> None:
        """Say it, unless its kind was said before."""
        if kind not in self._reported:
            self._reported.add(kind)
            self._report("warning", line)


def _check_hope(event: RelayDown, refusals: int, *, over: bool) -> None:
    """Raise where a relay that has never let this device in never will; `over`: it was tried for long enough.

    Raises:
        RelayError: it speaks another MQTT, refuses the enrolment account, or cannot be used otherwise.
    """
    too_old = NO_MQTT_5 in event.reason
    if too_old and (over or "perhaps" not in event.reason):
        raise RelayError(f"this relay cannot be used: {event.reason}", hint=OLD_SERVER_HINT)
    if refusals > 1:  # one may be another joiner, who was quicker
        raise RelayError(
            f"the relay refuses the enrolment account: {event.reason}",
            hint="type the whole code as 'covey invite' shows it, including the part after its words; "
            "or give --enrolment-password-file FILE",
        )
    if over:
        raise RelayError(
            f"this relay cannot be used: {event.reason}",
            hint="check the port and the scheme of the URL: mqtts:// for TLS, mqtt:// without",
        )


def _take(machine: Joiner, event: Delivered, relay: Relay, clock: Clock, once: _Once) -> None:
    try:
        machine.receive_message(event.payload, clock.monotonic_us())
    except RemoteError as error:
        once.warn(error.code, f"dropped a message at the rendezvous: {error.code}: {error}")
    finally:
        relay.acknowledge(event)
