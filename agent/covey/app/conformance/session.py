"""The test of a foreign device: its relay, its peers, the clock that turns them, and what steps have in common.

1. All runs in one thread. Every wait turns relay and peers, and ends at the time limit at the latest.
2. A step that cannot go on says what it has seen and raises `StepError`; the next step follows.
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.adapters.foreign_device import ForeignDevice
from covey.adapters.mqtt.watched_relay import ClientPublished, WatchedRelay
from covey.adapters.own_addresses import own_addresses
from covey.adapters.serial_line import SerialLine
from covey.adapters.state_folder import StateFolder
from covey.app.conformance.checks import ROLES, RequirementResults
from covey.app.conformance.line_end import LineEnd
from covey.app.conformance.observer import Observer, SeenMessage
from covey.app.conformance.peers import Companion, Peer
from covey.app.device.creating import KeyProtection, create_device
from covey.app.device.device import open_device
from covey.app.pairing.inviting import codes_can_be_drawn
from covey.core.group.manifest import COLLECTOR, MAILBOX
from covey.core.ids import DeviceKey, LinkSeq, inbox_name
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.messages import Reason, Refusal, from_wire, to_wire
from covey.core.pake import Side
from covey.core.routing.forwarding import Forward
from covey.core.wire import cbor
from covey.core.wire.envelope import SealedEnvelope, read_envelope
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import MessageType, read_message
from covey.core.wire.topics import inbox_topic, is_rendezvous, rendezvous_topic
from covey.errors import RemoteError
from covey.limits.board import MAXIMUM_BOARD_MESSAGE_BYTES
from covey.limits.pairing import INVITE_US
from covey_boards.shared.line_orders import ALARM
from covey_boards.shared.messages import CARRY, DELIVER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from covey.core.crypto import DeviceKeys
    from covey.core.group.manifest import Member
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.pairing.invite import Invite
    from covey.core.wire.message import Acknowledgement, Message

_TURN_S = 0.02
_CAPABILITIES = {COLLECTOR, MAILBOX}
"""Roles that are a capability of the member, which the invite names."""
MESSAGE_BYTES = {"gateway": 1_024, "board": MAXIMUM_BOARD_MESSAGE_BYTES}
"""Roles at a line, and the longest message that the test's end takes there: for a gateway less than what the protocol
allows, so that one that does not heed it is seen."""


def _wall_us() -> int:
    return time.time_ns() // 1_000


def _filled_in(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


class StepError(Exception):
    """A step cannot continue; its observations are noted."""


class DeviceEndedError(StepError):
    """The device's program has ended by itself: no step can follow."""


class DeviceTest:
    """Relay, peers and the device, from the invite to the last check."""

    def __init__(
        self,
        folder: Path,
        role: str,
        address: tuple[str, int],
        command: Sequence[str],
        wait_s: float,
        line: str = "",
        only: Collection[str] = (),
    ) -> None:
        """Prepare a test in an empty folder, of all checks of the role or `only` some.

        `command` may hold `{invite}`, `{state}` and `{line}`; if it is empty, a person starts the device. `line` is the
        serial port that leads to a gateway, where it is not a pseudo terminal of this test.

        Raises:
            ConfigurationError: the address cannot be listened on, or the port cannot be opened.
        """
        self.role, self.wait_s, self._folder = role, wait_s, folder
        self._only = only
        self._command, self._host = list(command), address[0]
        self._closing = ExitStack()
        self.findings = RequirementResults(ROLES[role])
        self.seen = Observer(self.findings)
        self.relay = WatchedRelay(*address)
        self._closing.callback(self.relay.close)
        state = StateFolder.at(folder / "peer")
        create_device(state, "conformance peer", KeyProtection("none"))
        device = self._closing.enter_context(open_device(state))
        self._relay_url = self._find_url()
        self.peer = Peer(device, self.relay, self._relay_url, self._delivered, secrets.token_bytes)
        self.companion, self.other, self.stranger = (
            Companion(self.relay, self._delivered, secrets.token_bytes, _wall_us) for _ in range(3)
        )
        self.program: ForeignDevice | None = None
        self._line: LineEnd | None = None
        self._line_name = ""
        if role in MESSAGE_BYTES:
            port = SerialLine(line)
            self._closing.callback(port.close)
            self._line_name = port.name
            self._line = LineEnd(port, secrets.token_bytes, MESSAGE_BYTES[role])
        self._lines_read = 0
        if role == "board":
            self.peer.catch(self._hand_down)
        self._is_disturbed = False
        self._forbidden_topics = {inbox_topic(self.stranger.key)}
        self.group_id = self._found_group()
        self.invite = self._write_invite()

    def close(self) -> None:
        """End the device, if this test started it, and everything else."""
        if self.program is not None:
            self.program.stop()
        self._closing.close()

    def wants(self, check: str) -> bool:
        """Say whether this test is to decide a check."""
        return not self._only or check in self._only

    # -- turning ------------------------------------------------------------------------------------------------------

    def _found_group(self) -> GroupId:
        founded: list[GroupId] = []
        own = () if self.role == "collector" else (COLLECTOR,)

        def found(node: Node, now: Now) -> None:
            founded.append(node.membership.create("conformance peer", own, now.wall_us).group_id)

        self.peer.do(found)
        for each in (self.peer.identity, self.companion.identity, self.other.identity, self.stranger.identity):
            self.seen.reads_for(each)
            self.relay.local_topics.add(inbox_topic(each.signing_public))
        self.seen.group_id = self.companion.group_id = self.other.group_id = founded[0]
        return founded[0]

    def _find_url(self) -> str:
        host = self._host
        if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - what people ask to listen on; a device needs an address
            host = next(iter(own_addresses()), "127.0.0.1")
        return f"mqtt://{f'[{host}]' if ':' in host else host}:{self.relay.port}"

    def _write_invite(self) -> Invite:
        written: list[Invite] = []
        capabilities = (self.role,) if self.role in _CAPABILITIES else ()
        named = [self.peer.key] if self.role in {"member", "operator", "gateway"} else []
        named += [self.companion.key] if self.role == "operator" else []

        def write(node: Node, now: Now) -> None:
            invite = node.joining.invite(self.group_id, capabilities, self._relay_url, now.wall_us)
            written.append(replace(invite, operators=tuple(sorted(named))))

        self.peer.do(write)
        return written[0]

    def _delivered(self, topic: str) -> None:
        if topic.endswith(f"/{self.seen.account}"):
            self.seen.delivered()

    @property
    def line(self) -> LineEnd:
        """The end of the line that leads to the device."""
        assert self._line is not None
        return self._line

    def _turn(self) -> None:
        if self._line is not None:
            self._line.turn()
            self._carry(self._line)
        for event in self.relay.turn(_TURN_S):
            known = len(self.seen.received)
            self.seen.take(event)
            if isinstance(event, ClientPublished):
                if self.peer.is_met_at(event.topic):
                    self._disturb(event)
                    self.peer.receive(event.topic, event.payload)
                if event.topic in self._forbidden_topics:
                    self.findings.fails("non-member", "it answered a device that shares no group with it")
            for each in self.seen.received[known:]:
                for member in (self.companion, self.other):
                    if each.message.recipient == member.key and not self.peer.muted:
                        member.acknowledge(each.message, self.device())
        self.peer.turn()
        self.seen.settle()

    def _carry(self, line: LineEnd) -> None:
        """Judge what a board hands to its gateway, and forward that to the peer, as the companion."""
        taken, self._lines_read = line.received[self._lines_read :], len(line.received)
        for _, fields in taken:
            if self.role != "board" or fields[0] not in (CARRY, ALARM) or self.seen.device is None:
                continue
            _, recipient, envelope = fields
            assert isinstance(recipient, bytes)
            assert isinstance(envelope, bytes)
            topic = inbox_topic(DeviceKey(recipient))
            published = (inbox_name(self.seen.device), topic, envelope, 1, False, False, (), len(envelope), 1)
            self.seen.take(ClientPublished(*published))
            self.say_to_peer(MessageType.FORWARD, Forward(DeviceKey(recipient), envelope).to_wire())

    def _hand_down(self, topic: str, payload: bytes) -> None:
        """Hand to the board what the peer sends its gateway for it."""
        if topic != inbox_topic(self.companion.key):
            return
        with suppress(RemoteError):
            envelope = read_envelope(payload)
            if isinstance(envelope, SealedEnvelope):  # the companion takes no link keys
                message = read_message(envelope.open(self.companion.identity.noise.current.secret.reveal()))
                if message.type is MessageType.FORWARD:
                    self.line.say(DELIVER, Forward.from_wire(message.body).envelope)

    def _disturb(self, event: ClientPublished) -> None:
        """Answer the first message at a rendezvous as a stranger does there, whose word ends nothing."""
        if self._is_disturbed or not is_rendezvous(event.topic):
            return
        with suppress(RemoteError):
            said = from_wire(event.payload)
            self._is_disturbed = True
            topic = rendezvous_topic(int(event.topic.split("/")[-2]), Side.JOINER)
            for payload in (b"no message", to_wire(Refusal(said.session, Reason.WRONG_CODE))):
                self.peer.publish(topic, payload)

    def until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Turn until something holds; return whether it came to hold in time.

        Raises:
            DeviceEndedError: the device's program has ended by itself.
        """
        deadline = time.monotonic() + (self.wait_s if seconds is None else seconds)
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self.program is not None and self.program.ended:
                self.report(f"the device's program has ended; it printed last:\n{self.program.last_words()}")
                self.findings.fails("mqtt", "its program ended before the test was over")
                raise DeviceEndedError
            self._turn()
        return True

    def pass_time(self, seconds: float) -> None:
        """Turn for a while."""
        self.until(lambda: False, seconds)

    def connects_after(self, connections: int) -> bool:
        """Wait until the device has connected more often than that: a person takes longer to start it than we do."""
        wait_s = self.wait_s if self._command else INVITE_US / 1e6
        return self.until(lambda: self.seen.connections > connections, wait_s)

    def restart_program(self) -> None:
        """Kill the device's program and restart it, or ask a person to do so."""
        if self.program is None:
            self.report("kill the device now (SIGKILL, or cut its power), and start it again")
            return
        self.program.kill()
        self.program.start()

    def ask(self, task: str) -> None:
        """Have the device do something as if its person had said so."""
        if self.program is None:
            self.report(f"have the device do this now: {task}")
        else:
            self.program.write_line(task)

    def mute(self) -> None:
        """Have the relay hold back what the peers say."""
        self.peer.mute()
        self.seen.muted = True

    def unmute(self) -> None:
        """Have the relay deliver what the peers say: devices would else wait for their next try, ever longer."""
        if self.peer.muted:
            self.peer.unmute()
        self.seen.muted = False
        self.seen.answering_since = time.monotonic()

    def device(self) -> DeviceKeys:
        """Return the device's keys, as the newest manifest has them."""
        key = self.seen.device
        member = None if key is None else self.peer.node.groups.group(self.group_id).member(key)
        if member is None:
            raise StepError
        return member.keys

    # -- joining ------------------------------------------------------------------------------------------------------

    def let_join(self, report: Callable[[str], None]) -> None:
        """Start the device, or have a person do so, and wait until it is a member.

        Raises:
            StepError: it is none in time.
        """
        self.report = report
        if self._command:
            state = str(self._folder / "device")
            filled = {"{invite}": self.invite.to_uri(), "{state}": state, "{relay}": self._relay_url}
            filled["{line}"] = self._line_name
            if any("{code}" in each for each in self._command):
                filled["{code}"] = self.peer.open_code(self.invite)
            words = [_filled_in(each, filled) for each in self._command]
            self.program = ForeignDevice(words, self._folder / "device.log")
            self.program.start()
            self.report("started the device; it joins")
        elif self._line is not None and self.role == "board":
            self.report("switch the board on")
        else:
            if codes_can_be_drawn():
                code = self.peer.open_code(self.invite)
                self.report(f"have the device join with the code {code} at the relay {self._relay_url}, or")
            self.report(f"have the device join with this invite: {self.invite.to_uri()}")
        seen, findings = self.seen, self.findings
        if self.role == "board":
            return  # the first step meets it, and lets it in
        if not self.connects_after(0):
            findings.fails("mqtt", "it did not connect with MQTT 5 in time")
            raise StepError
        if not self.until(lambda: seen.subscribed > 0):
            findings.fails("subscription", "it did not subscribe to its inbox")
        if not self.until(lambda: self.received(MessageType.JOIN, 0.0) is not None):
            ending = self.peer.pairing_ending()
            by_code = f"; the ceremony of the code ended: {ending}" if ending else ""
            findings.fails("join", f"it sent no JOIN to the inviter{by_code}")
            raise StepError
        is_member = self.until(self._is_member)
        refused = next((line for line in self.peer.reports if "dropped an envelope" in line), "its JOIN was refused")
        if not findings.holds("join", seen=is_member, failed=f"the inviter did not let it in: {refused}"):
            raise StepError
        if self._is_disturbed and self.until(lambda: self.peer.pairing_ending() != ""):
            ending = self.peer.pairing_ending()
            failed = f"the ceremony of its code ended: {ending}"
            findings.holds("code", seen=ending == Ending.PAIRED.value, failed=failed)
        if not self.until(lambda: not self.peer.waits_for(self.device().signing_public)):
            findings.fails("acknowledges", "it did not acknowledge the GROUP_MANIFEST that let it in")

    def _is_member(self) -> bool:
        key = self.seen.device
        return key is not None and self.peer.node.groups.group(self.group_id).member(key) is not None

    # -- what steps have in common ---------------------------------------------------------------------------------

    @contextmanager
    def unanswered(self, check: str) -> Iterator[SeenMessage]:
        """Answer nothing while a block looks at a batch that the device has just sent for the first time.

        A batch that it sends again will not do: the acknowledgement of the first copy may reach it after this begins.
        And one that comes before this begins shows that it sends: the last silence may have filled its window.
        """
        self.until(lambda: not self.peer.waits_for(self.device().signing_public))
        self._next_batch()
        self.mute()
        found = self._next_batch()
        if found is None:
            self.findings.not_seen(check, "it sent no batch while nothing was answered")
            self.unmute()
            raise StepError
        try:
            yield found
        finally:
            self.unmute()

    def _next_batch(self) -> SeenMessage | None:
        """Wait for a batch that comes for the first time, and is still without an acknowledgement."""
        since = time.monotonic()

        def sent() -> SeenMessage | None:
            batches = [each for each in self.seen.sequenced.values() if each.message.type is MessageType.TELEMETRY]
            return next((each for each in batches if not each.settled and each.times[0] > since), None)

        self.until(lambda: sent() is not None)
        return sent()

    def acknowledged(self, link_seq: LinkSeq, after: float) -> Acknowledgement | None:
        """Wait for an acknowledgement to the companion that covers a number and came after a moment."""

        def newest() -> Acknowledgement | None:
            last = self.seen.last_acknowledgement(self.companion.key, after, self.companion.incarnation)
            found = None if last is None else last.acknowledgement
            return found if found is not None and link_seq in found.received else None

        self.until(lambda: newest() is not None)
        return newest()

    def say_link(
        self, *, extensions: cbor.Extensions | None = None, link: tuple[bytes, bytes, int] | None = None
    ) -> Acknowledgement | None:
        """Have the companion send a link key, the one message that every role takes; return its acknowledgement."""
        companion, device = self.companion, self.device()
        companion.last = LinkSeq(companion.last + 1)
        number, after = companion.last, time.monotonic()
        self.link_key = secrets.token_bytes(8), secrets.token_bytes(32)
        body = cbor.encode(list(self.link_key))
        self.said = companion.write(MessageType.LINK, device.signing_public, body, number, extensions=extensions)
        self.envelope = companion.send(device, self.said, link)
        found = self.acknowledged(number, after)
        if found is not None and found.imprints is not None:
            named = found.imprints.get(number, imprint_of(self.said))
            right = named == imprint_of(self.said)
            self.findings.holds(
                "acknowledges",
                seen=right,
                failed=f"its acknowledgement names link-seq {number} by another imprint than the message's",
            )
        elif found is not None:
            self.findings.passes("acknowledges", "it acknowledged what came, without imprints")
        return found

    def add_member(self, member: Member) -> None:
        """Have the peer let somebody in, and wait until the device has acknowledged that."""
        self.peer.do(lambda node, now: node.actions.change(self.group_id, lambda draft, _: draft.adding(member), now))
        device = self.seen.device
        assert device is not None
        self.until(lambda: not self.peer.waits_for(device))

    def say(self, kind: MessageType, body: bytes) -> None:
        """Have the companion send the device a message of the group."""
        self.companion.last = LinkSeq(self.companion.last + 1)
        number, device = self.companion.last, self.device()
        message = self.companion.write(kind, device.signing_public, body, number, group_id=self.group_id)
        self.companion.send(device, message)

    def say_to_peer(self, kind: MessageType, body: bytes) -> None:
        """Have the companion send the peer a message of the group, past the relay."""
        self.companion.last_to_peer = LinkSeq(self.companion.last_to_peer + 1)
        own, number = self.peer.identity.keys, self.companion.last_to_peer
        message = self.companion.write(kind, own.signing_public, body, number, group_id=self.group_id)
        self.peer.receive(inbox_topic(own.signing_public), self.companion.sealed(message, own))

    def agrees(self, half: Callable[[GroupId], bytes], after: float, recipient: DeviceKey | None = None) -> bool:
        """Say whether the device has told the peer, or another member, of the groups that the peer holds."""
        device = self.device().signing_public
        said = self.seen.said_of_groups(recipient or self.peer.key, after)
        own = self.peer.node.heads.said_to(device)
        return said is not None and any(half(said)) and half(said) == half(own)

    def received(self, kind: MessageType, after: float, recipient: DeviceKey | None = None) -> Message | None:
        """Return the first message of a type that came after a moment, to the peer or another recipient."""
        whom = recipient or self.peer.key
        return next(
            (
                each.message
                for each in self.seen.received
                if each.at > after and each.message.type is kind and each.message.recipient == whom
            ),
            None,
        )
