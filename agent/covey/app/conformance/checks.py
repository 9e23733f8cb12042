"""What a foreign device is checked for: one row per check, by role, with the section of the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class RequirementVerdict(Enum):
    """What was seen of one check."""

    PASSED = "pass"
    FAILED = "fail"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One rule for a device. Where it is not mandatory, a device passes without it, but must not break it."""

    name: str
    section: str
    rule: str
    mandatory: bool = True

    def document(self) -> dict[str, object]:
        """Return what `--json` prints of it."""
        return {"check": self.name, "section": self.section, "mandatory": self.mandatory, "rule": self.rule}


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One check with its verdict, and a sentence about what was seen."""

    check: Requirement
    verdict: RequirementVerdict
    sentence: str

    @property
    def passed(self) -> bool:
        """Whether it was seen to go well."""
        return self.verdict is RequirementVerdict.PASSED

    @property
    def sound(self) -> bool:
        """Whether the device may be called conformant as far as this check goes."""
        return self.passed or (self.verdict is RequirementVerdict.NOT_SEEN and not self.check.mandatory)


_RELAY, _ENVELOPES, _MESSAGES = "3 Relay", "4 Envelopes", "5 Messages"
_ACKNOWLEDGEMENTS, _LOSSES = "6 Acknowledgements", "7 Loss records"
_LINK, _INVITES = "8 The link", "10 Invites"
_TELEMETRY, _GROWTH, _HOLD, _HEADS = "11 Telemetry", "34 Growth", "35 Which manifests hold", "24 Heads"
_HISTORY, _SETTINGS, _COMMANDS = "23 History", "26 Settings", "27 Commands"
_ORDERS, _MAILBOX = "25 Orders", "32 Mailbox"
_LINE, _FORWARDING = "18 The line between board and gateway", "19 Forwarding"

SENSOR = (
    Requirement("mqtt", _RELAY, "connect with MQTT 5, and send packets that follow it"),
    Requirement("client-id", _RELAY, "use the name of its inbox as user name and client id"),
    Requirement("session", _RELAY, "connect with Clean Start 0 and a Session Expiry of 7 days"),
    Requirement("subscription", _RELAY, "subscribe to its own inbox alone, with QoS 1 and without retained messages"),
    Requirement("publishing", _RELAY, "publish to inboxes with QoS 1 (notes: 0 or 1), not retained, nothing revealed"),
    Requirement("packet-size", _RELAY, "send no packet larger than the relay's Maximum Packet Size"),
    Requirement("receive-maximum", _RELAY, "leave at most as many publishes unanswered as the relay's Receive Maximum"),
    Requirement("puback", _RELAY, "acknowledge deliveries to the relay (PUBACK)"),
    Requirement("envelopes", _ENVELOPES, "send envelopes that open: right form, box and padding"),
    Requirement("fresh-keys", _ENVELOPES, "draw a new ephemeral key and nonce, or a new counter, for every envelope"),
    Requirement("messages", _MESSAGES, "send messages that are well formed and carry a valid signature"),
    Requirement("addressed", _MESSAGES, "name itself as author, the recipient, and the right group in each message"),
    Requirement("join", _INVITES, "ask the inviter to join, with the secret and keys that belong to the invite"),
    Requirement("sequences", _MESSAGES, "count seq and link-seq up by one, from 1"),
    Requirement("one-message", _MESSAGES, "never use one link-seq for two different messages"),
    Requirement("telemetry", _TELEMETRY, "send telemetry batches that decode, to the collector"),
    Requirement("batch-numbers", _TELEMETRY, "count its batches from 1, each number once, none missing"),
    Requirement("resends", _LINK, "send a message again, with the same bytes, until it is acknowledged"),
    Requirement("stops", _ACKNOWLEDGEMENTS, "stop sending a message once it is acknowledged"),
    Requirement("acknowledges", _ACKNOWLEDGEMENTS, "acknowledge what it receives, and name it by its imprint"),
    Requirement("duplicates", _LINK, "acknowledge a message again that is delivered twice"),
    Requirement("stranger-ack", _ACKNOWLEDGEMENTS, "free nothing on an acknowledgement by another device"),
    Requirement("forged-ack", _MESSAGES, "free nothing on an acknowledgement whose signature is not its author's"),
    Requirement("imprint-ack", _ACKNOWLEDGEMENTS, "free only what an acknowledgement names by its imprint"),
    Requirement("wrong-recipient", _MESSAGES, "drop a message that names another recipient"),
    Requirement("forged-message", _MESSAGES, "drop a message whose signature is not its author's"),
    Requirement("non-member", _LINK, "drop messages of a device that shares no group with it"),
    Requirement("garbage", _ENVELOPES, "drop bytes that are no envelope it knows, and go on"),
    Requirement("odd-key", _GROWTH, "take a message with an unknown odd extension key as if the key were not there"),
    Requirement("even-key", _GROWTH, "acknowledge a message with an unknown even extension key as unsupported"),
    Requirement("unknown-type", _GROWTH, "acknowledge a message of an unknown type as unsupported, each time it comes"),
    Requirement("takes-link", _ENVELOPES, "open link envelopes under a key that a LINK message has told"),
    Requirement("sends-link", _ENVELOPES, "send under link keys of its own", mandatory=False),
    Requirement("relay-restart", _RELAY, "connect and subscribe again after a relay forgot everything; lose nothing"),
    Requirement("killed", _LINK, "send what was not acknowledged again, with the same bytes, after SIGKILL"),
    Requirement("manifests", _HOLD, "take the next manifest of its group, and go on speaking in it"),
    Requirement("key-rotation", _HOLD, "seal for a peer's new noise key once a manifest names it"),
)

MEMBER = (
    *SENSOR,
    Requirement("heads", _HEADS, "carry the digest of the shared groups in its acknowledgements"),
    Requirement("history", _HISTORY, "take an operation, and count it in the history digest"),
    Requirement("pulls-history", _HISTORY, "ask for operations that heads say it lacks"),
    Requirement("answers-history", _HISTORY, "answer HISTORY_PULL with the operations that its asker lacks"),
    Requirement("answers-manifests", _HOLD, "answer GROUP_PULL with the manifests it holds"),
    Requirement("setting", _SETTINGS, "report what became of an operator's setting"),
    Requirement("order", _COMMANDS, "report what became of an operator's command"),
    Requirement("conflict", _HOLD, "settle two rival manifests as the rules say"),
    Requirement("removal", _HOLD, "take a removal with its new epoch, and send nothing more to the removed device"),
    Requirement("presence", "22 Presence", "send signs of life to its collector", mandatory=False),
    Requirement("code", "36 Pairing", "join by the words of a code, where strangers speak, too", mandatory=False),
)

_DELIVERING = {
    *("telemetry", "batch-numbers", "resends", "stops", "stranger-ack", "forged-ack", "imprint-ack", "receive-maximum"),
    "killed",
}
"""Checks that need a device that measures; other roles have to pass them as a member."""

_BASE = (
    *(each for each in SENSOR if each.name not in _DELIVERING),
    *(each for each in MEMBER if each.name in {"heads", "removal", "code"}),
)
"""What every device that need not measure is checked for, whatever its role is."""

COLLECTOR = (
    *_BASE,
    Requirement("lands", _LINK, "acknowledge a batch once it has landed, and name it by its imprint"),
    Requirement("lands-again", _LINK, "acknowledge a batch again that comes twice"),
    Requirement("gaps", _ACKNOWLEDGEMENTS, "leave what has not come out of its acknowledgements, and take it late"),
    Requirement("losses", _LOSSES, "count as received what a LOSS names"),
    Requirement("resumptions", _LOSSES, "count as received what a RESUME closes"),
    Requirement("forged-batch", _MESSAGES, "drop a batch whose signature is not its author's"),
    Requirement("unreadable-batch", _LINK, "set aside and acknowledge a batch that it cannot read"),
    Requirement("incarnations", _LINK, "begin a new link with a sender's new incarnation"),
    Requirement("durable", _LINK, "hold after SIGKILL every batch that it has acknowledged"),
)

OPERATOR = (
    *_BASE,
    *(each for each in MEMBER if each.name == "history"),
    Requirement("log", _HISTORY, "count its operations up by one, and sign no two with one number"),
    Requirement("sets", _SETTINGS, "set what its person says, for whom its person says"),
    Requirement("follows", _HISTORY, "follow with an order all that it knew"),
    Requirement("counts", _ORDERS, "give orders that count once enough operators have approved them"),
    Requirement("spreads", _HISTORY, "send what it writes to every other member"),
    Requirement("spares-boards", _LINE, "send a board neither operations nor manifests"),
    Requirement("runs", _COMMANDS, "give the command that its person says"),
    Requirement("once-ids", _COMMANDS, "give each command a once-id of its own"),
    Requirement("results", _COMMANDS, "acknowledge what devices report of settings and commands"),
    Requirement("threshold", _ORDERS, "obey no order that fewer operators have signed than its owner demands"),
    Requirement("approves", _ORDERS, "approve the order that its person names"),
    Requirement("durable", _HISTORY, "continue its log after SIGKILL"),
)

MAILBOX = (
    *_BASE,
    Requirement("greeting", _MAILBOX, "answer HELLO with WELCOME, and anything else without a session with `session`"),
    Requirement("push", _MAILBOX, "acknowledge a PUSH, by its blob-id, with the next cursor of the recipient's inbox"),
    Requirement("push-again", _MAILBOX, "keep a blob once that is pushed twice, under the cursor that it has"),
    Requirement("notify", _MAILBOX, "tell a recipient with a session that a blob has come"),
    Requirement("pull", _MAILBOX, "answer PULL with the blobs above a cursor, in order and byte for byte"),
    Requirement("keeps", _MAILBOX, "keep a blob that was pulled until its recipient deletes it"),
    Requirement("deletes", _MAILBOX, "hand out no blob that its recipient has deleted"),
    Requirement("cursors", _MAILBOX, "give no cursor twice, and leave none out"),
    Requirement("own-inbox", _MAILBOX, "let a device pull from its own inbox alone, and delete there alone"),
    Requirement("discreet", _MAILBOX, "tell nobody else what a device has asked for"),
    Requirement("refuses", _MAILBOX, "refuse with an ERROR what it may not do, by the code of its section"),
    Requirement("silent-errors", _MAILBOX, "answer no ERROR"),
    Requirement("shares", _MAILBOX, "refuse blobs beyond one sender's share, so that others have room"),
    Requirement("durable", _MAILBOX, "hold after SIGKILL every blob and cursor that it has acknowledged"),
    Requirement("revocation", _MAILBOX, "confirm a removal, and ignore the removed device from then on"),
)

GATEWAY = (
    *_BASE,
    Requirement("line", _LINE, "bring the line up, and again with a board that has restarted"),
    Requirement("line-bounds", _LINE, "heed the board's frame size, window and message size"),
    Requirement("line-noise", _LINE, "go on after bytes that are no frame"),
    Requirement("line-repeats", _LINE, "send a frame again that the board does not acknowledge"),
    Requirement("proof", _LINE, "drop an IDENTIFY whose proof does not verify"),
    Requirement("time", _LINE, "tell a board the time when it identifies itself"),
    Requirement("enrols", _LINE, "tell a board of its group first the operators, then the collector"),
    Requirement("carries", _FORWARDING, "forward a board's envelope, byte for byte, to the recipient that it names"),
    Requirement("repeats", _FORWARDING, "forward what a board repeats, with whatever number or counter"),
    Requirement("outsiders", _FORWARDING, "forward nothing to a device outside of the board's group"),
    Requirement("commits", _LINE, "acknowledge on the line only what SIGKILL cannot lose"),
    Requirement("delivers", _FORWARDING, "hand down what a FORWARD brings for a board on its line"),
    Requirement("board-bounds", _FORWARDING, "hand down nothing that is longer than the board takes"),
    Requirement("strangers", _FORWARDING, "hand down nothing of devices outside of the board's group"),
    Requirement("sleepers", _FORWARDING, "keep the newest four of each author for a board that sleeps"),
    Requirement("orders", _LINE, "hand down an order for the board that counts"),
    Requirement("order-results", _LINE, "report the result that the board has signed to the order's author"),
)

_OF_BOARDS = {
    *("envelopes", "fresh-keys", "messages", "addressed", "sequences", "one-message", "telemetry", "batch-numbers"),
    *("resends", "stops", "sends-link"),
}
"""What a board must do as any device does that measures; it speaks with no relay, and follows no manifests."""

BOARD = (
    *(each for each in SENSOR if each.name in _OF_BOARDS),
    Requirement("line", _LINE, "bring the line up, and again with a gateway that has restarted"),
    Requirement("line-bounds", _LINE, "heed the gateway's frame size and window"),
    Requirement("line-noise", _LINE, "go on after bytes that are no frame"),
    Requirement("line-repeats", _LINE, "send a frame again that the gateway does not acknowledge"),
    Requirement("identifies", _LINE, "identify itself first, with a proof that verifies"),
    Requirement("enrols", _LINE, "take the collector that ENROL names, and identify itself with it"),
    Requirement("one-collector", _LINE, "ignore an ENROL that names anybody else"),
    Requirement("types", _FORWARDING, "send no types of messages but those of boards"),
    Requirement("operators", _LINE, "obey nobody but the operators that it was enrolled with"),
    Requirement("orders", _LINE, "sign what became of an operator's order"),
    Requirement("collector-key", _FORWARDING, "take the collector's new noise key, and acknowledge it"),
    Requirement("restarts", _LINE, "restart when the gateway asks, in a new incarnation"),
    Requirement("durable", _LINE, "keep its keys and its collector through a power cut"),
)

ROLES = {
    "sensor": SENSOR,
    "member": MEMBER,
    "collector": COLLECTOR,
    "operator": OPERATOR,
    "mailbox": MAILBOX,
    "gateway": GATEWAY,
    "board": BOARD,
}


class RequirementResults:
    """The verdict of each check: failed once is failed, however often it went well."""

    def __init__(self, checks: tuple[Requirement, ...]) -> None:
        self._checks = {each.name: each for each in checks}
        self._passed: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._not_seen: dict[str, str] = {}

    def passes(self, name: str, sentence: str = "") -> None:
        """Note that a check went well."""
        self._passed[name] = sentence

    def fails(self, name: str, sentence: str) -> None:
        """Note what the device did wrong; the first sentence of a check is kept."""
        self._failed.setdefault(name, sentence)

    def not_seen(self, name: str, sentence: str) -> None:
        """Note why a check could not be made."""
        self._not_seen.setdefault(name, sentence)

    def holds(self, name: str, *, seen: bool, passed: str = "", failed: str) -> bool:
        """Note a check that went one way or the other; return whether it went well."""
        if seen:
            self.passes(name, passed)
        else:
            self.fails(name, failed)
        return seen

    def failed(self, name: str) -> bool:
        """Say whether a check has failed."""
        return name in self._failed

    def all(self) -> list[RequirementResult]:
        """Return every check of the role, in order."""
        return [self._finding(check) for check in self._checks.values()]

    def of(self, names: Collection[str]) -> list[RequirementResult]:
        """Return the named checks, and all others that failed."""
        return [each for each in self.all() if each.check.name in names or each.verdict is RequirementVerdict.FAILED]

    def _finding(self, check: Requirement) -> RequirementResult:
        if check.name in self._failed:
            return RequirementResult(check, RequirementVerdict.FAILED, self._failed[check.name])
        if check.name in self._passed:
            return RequirementResult(check, RequirementVerdict.PASSED, self._passed[check.name])
        return RequirementResult(
            check, RequirementVerdict.NOT_SEEN, self._not_seen.get(check.name, "the test did not come to this")
        )
