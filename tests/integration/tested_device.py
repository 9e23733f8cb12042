"""Covey's own agent as a device that `covey conformance` tests: as it is, or with rules of the protocol broken.

    python -P -m tests.integration.tested_device ROLE STATE INVITE [line=PORT] [relay=URL] [BREAKS ...]
    python -P -m tests.integration.tested_device ROLE STATE 'do TASK' [BREAKS ...]

It makes a device in STATE where there is none, joins by INVITE (or by a code, at URL), does what its role does
(`sensor` and `member` measure several times a second), and runs until it is killed. BREAKS are names of `WRONGS`.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from covey.adapters.mqtt import connection, posted
from covey.adapters.sqlite import mailbox
from covey.app.telemetry import collector
from covey.cli.main import main
from covey.core import assembly, crypto, node
from covey.core.history import exchange as announcing
from covey.core.history import heads, history
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, sign_operation
from covey.core.history.orders import CommandOrder
from covey.core.ids import INCARNATION_BYTES, Incarnation, LinkSeq, OperationId
from covey.core.link import sealer
from covey.core.mailbox import service
from covey.core.mailbox.messages import Notify, PushAck
from covey.core.routing import routes
from covey.core.wire import cbor, envelope, message
from covey.core.wire.message import NO_GROUP
from covey.core.wire.sequences import SequenceSet
from covey_boards import bridge
from covey_boards.device import identity as board_identity
from covey_boards.shared import link_machine


def _subscribes_to_everything() -> None:
    topics = posted.Subscriptions.topics
    posted.Subscriptions.topics = lambda self: [*topics(self), "#"]  # type: ignore[method-assign]


def _starts_clean() -> None:
    made = connection.Connection.__init__

    def clean(self: connection.Connection, name: str, generation: int, settings: Any, *rest: Any) -> None:
        made(self, name, generation, replace(settings, clean_start=True, session_expiry_s=3_600), *rest)

    connection.Connection.__init__ = clean  # type: ignore[method-assign, assignment]


def _resends_under_a_new_number() -> None:
    queued = sealer.Sealer.queued

    def renumbered(self: Any, recipient: Any, entry: Any, address: Any, now: Any) -> Any:
        found = message.read_message(entry.message, verify=False)
        if entry.sends and found.type is message.MessageType.TELEMETRY:
            written = message.write_message(
                *(self._identity, found.type, recipient, found.group_id, found.incarnation),
                *(found.seq + 500, LinkSeq(found.link_seq + 500), found.sent_at_us, found.body),
            )
            return self.seal(recipient, written, entry, address)
        return queued(self, recipient, entry, address, now)

    sealer.Sealer.queued = renumbered  # type: ignore[method-assign]


def _resends_other_bytes() -> None:
    queued = sealer.Sealer.queued

    def rewritten(self: Any, recipient: Any, entry: Any, address: Any, now: Any) -> Any:
        found = message.read_message(entry.message, verify=False)
        if entry.sends:
            written = message.write_message(
                *(self._identity, found.type, recipient, found.group_id, found.incarnation),
                *(found.seq, found.link_seq, now.wall_us, found.body),
            )
            return self.seal(recipient, written, entry, address)
        return queued(self, recipient, entry, address, now)

    sealer.Sealer.queued = rewritten  # type: ignore[method-assign]


def _forgets_on_puback() -> None:
    def forget(self: Any, recipient: Any, place: Any) -> None:
        with self._records.transaction():
            self._queue.remove(recipient, place)

    node.Node.relayed = forget  # type: ignore[method-assign]


def _ignores_even_keys() -> None:
    split = cbor.split_extensions

    def ignoring(value: Any, understood: Any = ()) -> Any:
        keys = value[-1] if isinstance(value, list) and value and isinstance(value[-1], dict) else ()
        return split(value, (*understood, *keys))

    cbor.split_extensions = ignoring


def _verifies_no_signature() -> None:
    crypto.verify = lambda *_: None


def _frees_without_imprints() -> None:
    read = message.Acknowledgement.from_wire
    unnamed = staticmethod(lambda body: replace(read(body), imprints=None))
    message.Acknowledgement.from_wire = unnamed  # type: ignore[method-assign]


def _says_nothing_of_groups() -> None:
    heads.HeadsExchange.said_to = lambda *_: NO_GROUP  # type: ignore[method-assign]


def _lands_nothing() -> None:
    collector.Collector._land = lambda *_: None  # type: ignore[method-assign]


def _acknowledges_over_gaps() -> None:
    def whole(self: SequenceSet, _: int) -> list[Any]:
        return [self.ranges[-1][1] if self.ranges else self.upto, []]

    SequenceSet.to_wire = whole  # type: ignore[method-assign, assignment]


def _waits_for_lost_messages() -> None:
    read = message.Loss.from_wire
    own = staticmethod(lambda body: replace(read(body), incarnation=Incarnation(bytes(INCARNATION_BYTES))))
    message.Loss.from_wire = own  # type: ignore[method-assign]


def _forgets_at_start() -> None:
    _AT_START.append("DELETE FROM received")


_AT_START: list[str] = []
"""SQL that runs before a device that exists is started again."""


def _obeys_nobody() -> None:
    _JOIN[:] = ["--obey-nobody"]


_JOIN = ["--obey"]


def _keeps_deleted_blobs() -> None:
    mailbox.MailboxInboxes.delete = lambda *_: 0  # type: ignore[method-assign]


def _deletes_what_was_pulled() -> None:
    response, receive = service.MailboxService._response, service.MailboxService.receive
    pulled: list[tuple[Any, tuple[int, int]]] = []

    def remembering(self: Any, device: Any, pull: Any) -> Any:
        found = response(self, device, pull)
        pulled.extend((device, (each.cursor, each.cursor)) for each in found.blobs)
        return found

    def deleting(self: Any, *rest: Any) -> Any:
        for device, cursors in pulled:
            self._records.delete(device, cursors)
        pulled.clear()
        return receive(self, *rest)

    service.MailboxService._response = remembering  # type: ignore[method-assign]
    service.MailboxService.receive = deleting  # type: ignore[method-assign, assignment]


def _reports_who_pulled() -> None:
    response = service.MailboxService._response

    def reporting(self: Any, device: Any, pull: Any) -> Any:
        found = response(self, device, pull)
        for each in found.blobs:
            news = Notify(each.blob_id, each.cursor, device, each.timestamp, len(each.payload))
            self._answers.append((each.sender_id, self._sessions[device].group_id, news))
        return found

    service.MailboxService._response = reporting  # type: ignore[method-assign]


def _lets_one_sender_fill_it() -> None:
    def has_any_room(room: int, _parties: int, _held: int, more: int, beyond: Callable[[int], int]) -> bool:
        return beyond(0) + more <= room

    vars(mailbox)["has_room"] = has_any_room


def _shows_every_inbox() -> None:
    after = mailbox.MailboxInboxes.after

    def of_anybody(self: Any, device: Any, *rest: Any) -> Any:
        inboxes = [device, *(each for each in self.devices() if each != device)]
        return next((found for each in inboxes if (found := after(self, each, *rest))[0]), ([], False))

    mailbox.MailboxInboxes.after = of_anybody  # type: ignore[method-assign, assignment]


def _keeps_for_strangers() -> None:
    push = service.MailboxService._push

    def pushing(self: Any, message: Any, said: Any, now: Any) -> None:
        known = self._groups.group(message.group_id).member(said.recipient) is not None
        if known:
            push(self, message, said, now)
        else:
            self._answer(message, PushAck(said.blob_id, 1, now.wall_us))

    service.MailboxService._push = pushing  # type: ignore[method-assign, assignment]


def _forgets_blobs_at_start() -> None:
    _AT_START.append("DELETE FROM mailbox_blob")


def _signs_one_number_twice() -> None:
    sign = sign_operation

    def forking(operation: Operation, *rest: Any) -> Operation:
        first = Path(sys.argv[2]) / "first-command"
        if operation.kind == OperationKind.COMMAND and first.exists():
            number, previous = json.loads(first.read_text())
            operation = replace(operation, number=number, previous=OperationId(bytes.fromhex(previous)) or None)
        elif operation.kind == OperationKind.COMMAND:
            first.write_text(json.dumps([operation.number, (operation.previous or b"").hex()]))
        return sign(operation, *rest)

    vars(history)["sign_operation"] = forking


def _gives_one_once_id() -> None:
    to_wire = CommandOrder.to_wire
    CommandOrder.to_wire = lambda self: to_wire(replace(self, once=bytes(16)))  # type: ignore[method-assign]


def _follows_its_own_log() -> None:
    def own_head(self: Any, group_id: Any, *_: Any) -> Any:
        end = self._records.operations.end_of(group_id, self._log(group_id))
        return [] if end is None else [end.last]

    history.History._heads_to_follow = own_head  # type: ignore[method-assign, assignment]


def _obeys_one_operator() -> None:
    _SETTINGS["operator"]["operations.threshold"] = "1"


def _writes_to_boards() -> None:
    def everybody(self: Any, manifest: Any) -> Any:
        return (each.keys.signing_public for each in manifest.members if each.keys.signing_public != self._own)

    announcing.HistoryAnnouncing._hearers = everybody  # type: ignore[method-assign]
    vars(assembly)["address"] = lambda groups, _records, device: groups.address(device)
    vars(routes)["board_member"] = lambda *_: None


def _acknowledges_frames_early() -> None:
    carry, turn = bridge.Bridge._carry, bridge.Bridge.turn
    kept: list[tuple[float, tuple[Any, ...]]] = []

    def keeping(_: Any, *rest: Any, **names: Any) -> bool:
        kept.append((time.monotonic() + 3, rest[:4]))
        return bool(names)

    def storing(self: Any, node: Any, now: Any) -> Any:
        while kept and time.monotonic() > kept[0][0]:
            carry(self, *kept.pop(0)[1], is_alarm=False, node=node, now=now)
        return turn(self, node, now)

    bridge.Bridge._carry = keeping  # type: ignore[method-assign, assignment]
    bridge.Bridge.turn = storing  # type: ignore[method-assign]


def _carries_each_counter_once() -> None:
    carry, counters = bridge.Bridge._carry, set[int]()

    def once(self: Any, line: Any, board: Any, recipient: Any, raw: bytes, **rest: Any) -> bool:
        found = envelope.read_envelope(raw)
        counter = found.counter if isinstance(found, envelope.LinkEnvelope) else 0
        if counter in counters:
            return True
        counters.update({counter} - {0})
        return carry(self, line, board, recipient, raw, **rest)

    bridge.Bridge._carry = once  # type: ignore[method-assign, assignment]


def _ignores_what_the_board_takes() -> None:
    receive = link_machine.Link._receive_hello

    def receiving(self: Any, *rest: Any) -> None:
        receive(self, *rest)
        self._peer_window, self._peer_message_bytes_max = 8, link_machine.MESSAGE_BYTES_MAX

    link_machine.Link._receive_hello = receiving


def _wakes_boards() -> None:
    bridge.Bridge._take_sleep = lambda *_: None  # type: ignore[method-assign]


def _believes_any_proof() -> None:
    board_identity.noise_key_is_proven = lambda *_: True


WRONGS: dict[str, Callable[[], None]] = {
    "subscribes-to-everything": _subscribes_to_everything,
    "starts-clean": _starts_clean,
    "resends-under-a-new-number": _resends_under_a_new_number,
    "resends-other-bytes": _resends_other_bytes,
    "forgets-on-puback": _forgets_on_puback,
    "ignores-even-keys": _ignores_even_keys,
    "verifies-no-signature": _verifies_no_signature,
    "frees-without-imprints": _frees_without_imprints,
    "says-nothing-of-groups": _says_nothing_of_groups,
    "obeys-nobody": _obeys_nobody,
    "lands-nothing": _lands_nothing,
    "acknowledges-over-gaps": _acknowledges_over_gaps,
    "waits-for-lost-messages": _waits_for_lost_messages,
    "forgets-at-start": _forgets_at_start,
    "signs-one-number-twice": _signs_one_number_twice,
    "gives-one-once-id": _gives_one_once_id,
    "follows-its-own-log": _follows_its_own_log,
    "obeys-one-operator": _obeys_one_operator,
    "writes-to-boards": _writes_to_boards,
    "acknowledges-frames-early": _acknowledges_frames_early,
    "carries-each-counter-once": _carries_each_counter_once,
    "ignores-what-the-board-takes": _ignores_what_the_board_takes,
    "wakes-boards": _wakes_boards,
    "believes-any-proof": _believes_any_proof,
    "keeps-deleted-blobs": _keeps_deleted_blobs,
    "deletes-what-was-pulled": _deletes_what_was_pulled,
    "reports-who-pulled": _reports_who_pulled,
    "lets-one-sender-fill-it": _lets_one_sender_fill_it,
    "shows-every-inbox": _shows_every_inbox,
    "keeps-for-strangers": _keeps_for_strangers,
    "forgets-blobs-at-start": _forgets_blobs_at_start,
}
"""What a device may do wrong, by name: each breaks one rule of the product in this process."""

_MEASURES = {
    "telemetry.batch_seconds": "0.3",
    "sensors.interval_seconds": "0.3",
    "operations.commands": "restart",
}
_SETTINGS: dict[str, dict[str, str]] = {
    "sensor": _MEASURES,
    "member": _MEASURES,
    "collector": {"vault.segment_seconds": "0.3"},
    "operator": {"operations.threshold": "2", "operations.commands": "restart-agent"},
    "gateway": {"operations.commands": "restart-agent"},
    "mailbox": {"mailbox.serve": "true", "mailbox.maximum_mib": "1"},
}


_LINE, _RELAY = "line=", "relay="
_TASKS = {"set": ("setting", "set"), "run": ("order", "run"), "approve": ("order", "approve")}
"""What an operator may be told in a line, and the commands that do it."""


def _do_tasks(role: str, state: str, breaks: list[str]) -> None:
    """Do what each line of the standard input says, in a process of its own, as a person at a terminal does."""
    for line in sys.stdin:
        own = [sys.executable, "-P", "-m", "tests.integration.tested_device", role, state, f"do {line.strip()}"]
        subprocess.run([*own, *breaks], stdin=subprocess.DEVNULL, check=False)


def run(role: str, state: str, invite: str, breaks: list[str]) -> int:
    """Be the device."""
    for each in breaks:
        if each.startswith(_LINE):
            _SETTINGS[role]["bridge.ports"] = each.removeprefix(_LINE)
        elif each.startswith(_RELAY):
            _JOIN[:] = [*_JOIN, "--relay", each.removeprefix(_RELAY)]
        else:
            WRONGS[each]()
    here = ("--state", state)
    if invite.startswith("do "):
        task, *words = invite.split()[1:]
        return main([*_TASKS[task], *words, *here])
    threading.Thread(target=_do_tasks, args=(role, state, breaks), daemon=True).start()
    if not (Path(state) / "identity.key").exists():
        main(["init", "--label", "tested", *here])
        for key, value in _SETTINGS[role].items():
            main(["config", "set", key, value, *here])
    if main(["group", "show", *here]) != 0:
        main(["join", invite, *_JOIN, *here])
    with closing(sqlite3.connect(Path(state) / "state.sqlite")) as database, database:
        for statement in _AT_START:
            database.execute(statement)
    quiet = [] if _SETTINGS[role] is _MEASURES else ["--no-sensors"]
    return main(["collect" if role == "collector" else "run", *quiet, *here])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
