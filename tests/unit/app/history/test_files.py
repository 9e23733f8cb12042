"""A history carried on a stick: for whom it is, whatever became of the stick on the way."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.app.device.device import find_state, open_device
from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import Note
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Approval
from covey.core.ids import OperationId
from covey.core.wire import cbor
from covey.core.wire.history_file import HistoryFileWriter, Part, PartKind
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from tests.command import Here


def _add(here: Here, other: Here) -> None:
    """Let a device into the group as if it had joined long ago."""
    with open_device(find_state(str(other.state))) as joiner:
        keys = joiner.node.identity.keys
    with open_device(find_state(str(here.state))) as device, device.store.transaction():
        group_id = device.pick_group(None).group_id
        device.node.actions.change(group_id, lambda draft, _: draft.adding(Member(keys, "other")), device.now())
        manifest = device.pick_group(None)
        secret = device.node.groups.secret(group_id)
        assert secret is not None
    _hold(other, manifest, secret)


def _hold(other: Here, manifest: GroupManifest, secret: bytes) -> None:
    with open_device(find_state(str(other.state))) as joiner, joiner.store.transaction():
        groups = joiner.store.groups
        groups.save_manifest(manifest.group_id, manifest.hash, manifest.version, manifest.raw, 0)
        groups.save_secret(manifest.group_id, manifest.epoch_id, secret, 0)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Here, Here]:
    """Two devices of one group that have said nothing to each other yet."""
    ann, ben = Here(tmp_path, "ann"), Here(tmp_path, "ben")
    ann.ok("group", "create")
    _add(ann, ben)
    return ann, ben


def _texts(device: Here) -> list[str]:
    return [json.loads(line)["text"] for line in device.ok("history", "log", "--json").splitlines()]


def _imported(device: Here, file: Path) -> Any:
    return device.json("history", "import", str(file))


@pytest.mark.slow
def test_a_stick_brings_a_history_whole_and_does_no_harm_again(  # accepts: 003.82
    pair: tuple[Here, Here], tmp_path: Path
) -> None:
    ann, ben = pair
    stick, old = tmp_path / "stick", tmp_path / "old"
    ann.ok("history", "post", "the first one")
    ann.ok("history", "export", str(old))
    _note_many(ann, 600)
    written = ann.json("history", "export", str(stick))
    assert (written["operations"], written["members"]) == (601, 2)
    assert stat.S_IMODE(stick.stat().st_mode) == 0o600
    assert b"the first one" not in stick.read_bytes()
    assert _imported(ben, stick)["taken"] == 601
    assert _texts(ben) == _texts(ann)
    for file in (stick, old):
        assert _imported(ben, file)["taken"] == 0, "an old stick, or the same again, changes nothing"
    assert ben.ok("history", "verify").startswith("601 operations by 1 author, 2 group versions")
    ben.ok("history", "post", "answer")
    ben.ok("history", "export", str(stick), "--for", "ann")
    assert _imported(ann, stick)["taken"] == 1
    assert _texts(ann)[-1] == "answer"


def _note_many(here: Here, notes: int) -> None:
    with open_device(find_state(str(here.state))) as device, device.store.transaction():
        group_id = device.pick_group(None).group_id
        for number in range(notes):
            device.node.history.write(group_id, Note("text/plain", f"note {number}".encode()), device.now())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda raw: raw[: len(raw) * 2 // 3], "the file was cut off"),
        (lambda raw: raw[:-200] + bytes([raw[-200] ^ 1]) + raw[-199:], "was changed, or is missing"),
        (lambda raw: raw[:0], "the file is empty"),
        (lambda raw: b"%PDF-1.7" + raw, "not a part of a history"),
    ],
)
def test_of_a_damaged_stick_what_is_whole_is_taken(
    pair: tuple[Here, Here], tmp_path: Path, damage: Callable[[bytes], bytes], complaint: str
) -> None:
    ann, ben = pair
    _note_many(ann, 300)
    stick = tmp_path / "stick"
    ann.ok("history", "export", str(stick))
    stick.write_bytes(damage(stick.read_bytes()))
    ended = ben.covey("history", "import", str(stick))
    assert ended.code == 1
    assert complaint in ended.stderr
    assert _texts(ben) == _texts(ann)[: len(_texts(ben))]
    ann.ok("history", "export", str(stick))
    assert ben.covey("history", "import", str(stick)).code == 0, "a whole one mends it"
    assert _texts(ben) == _texts(ann)


@pytest.mark.parametrize("content", [b"hello" * 99, b""])
def test_of_what_is_no_history_nothing_is_said_to_be_taken(
    pair: tuple[Here, Here], tmp_path: Path, content: bytes
) -> None:
    _, ben = pair
    stick = tmp_path / "stick"
    stick.write_bytes(content)
    ended = ben.covey("history", "import", str(stick))
    assert (ended.code, ended.stdout) == (1, "")
    assert "nothing was imported" in ended.stderr


@pytest.mark.slow
def test_only_recipients_open_a_sealed_export_and_others_learn_what_to_do(  # accepts: 003.65
    pair: tuple[Here, Here], tmp_path: Path
) -> None:
    ann, ben = pair
    stick = tmp_path / "stick"
    ann.ok("history", "export", str(stick), "--for", "ann")
    said = ben.fails("history", "import", str(stick), code=1)
    assert "sealed for other devices" in said
    assert "needs an invite" in said
    ann.ok("history", "export", str(stick))
    with open_device(find_state(str(ben.state))) as device, device.store.transaction():
        device.store.groups.forget(device.pick_group(None).group_id)
    complaint = ben.fails("history", "import", str(stick), code=1)
    assert "this device is not a member of it" in complaint
    assert "ask a member for an invite" in complaint


@pytest.mark.slow
def test_a_stick_between_who_forgot_and_who_keeps(pair: tuple[Here, Here], tmp_path: Path) -> None:
    ann, ben = pair
    keys = ",".join(each.json("key", "show")["signing_key"] for each in pair)
    for each in pair:
        each.ok("config", "set", "operations.operators", keys)
    whole, later = tmp_path / "whole", tmp_path / "later"
    _note_many(ann, 5)
    checkpoint = ann.json("history", "checkpoint")["id"]
    ann.ok("history", "export", str(whole))
    _imported(ben, whole)
    with open_device(find_state(str(ben.state))) as device, device.store.transaction():  # as its agent does
        [group] = device.node.groups.joined()
        device.node.history.write(group.group_id, Approval(OperationId(bytes.fromhex(checkpoint))), device.now())
    assert ben.json("history", "delete", "--keep", "0")["deleted"] == 5
    found = _imported(ben, whole)
    assert (found["taken"], found["waiting"], found["refused"]) == (0, 0, 0), "what was forgotten is known"
    ben.ok("history", "export", str(later))
    found = _imported(ann, later)
    assert (found["taken"], found["waiting"], found["refused"]) == (1, 0, 0)
    assert ann.json("history", "delete", "--keep", "0")["deleted"] == 5


# What somebody has made up


def _made(here: Here, other: Here, file: Path, *make: Callable[[Operation, Identity], bytes]) -> None:
    """Write a stick with a note of somebody's, and what is made of that."""
    here.ok("history", "post", "a genuine one")
    with open_device(find_state(str(here.state))) as device:
        group_id = device.pick_group(None).group_id
        recipient = device.pick_group(None).members
        genuine = read_operation(device.store.operations.in_order(group_id)[-1].raw)
        raws = (genuine.raw, *(each(genuine, device.node.identity) for each in make))
    writer = HistoryFileWriter(bytes(range(32)), bytes(range(1, 33)), bytes(24))
    keys = [(each.keys.signing_public, each.keys.noise_public) for each in recipient]
    parts = [Part(group_id, PartKind.OPERATIONS, (raw,)) for raw in raws]
    last = Part(group_id, PartKind.OPERATIONS, (), last=True)
    file.write_bytes(writer.header(keys) + b"".join(map(writer.part, (*parts, last))))


def _next(genuine: Operation, identity: Identity, **other: Any) -> bytes:
    """Return the operation of its author after one, with something that no device of the product would write."""
    following = replace(
        genuine,
        number=2,
        previous=genuine.id,
        parents=(genuine.id,),
        height=2,
        body=Note("text/plain", b"no").to_wire(),
    )
    it = replace(following, **other)
    document = cbor.encode(
        [
            *(1, it.group_id, it.author, it.log.incarnation, it.number, it.previous, list(it.parents), it.height),
            *(it.manifest, it.made_at_us, it.kind, it.body),
        ]
    )
    return cbor.encode([crypto.sign(b"covey/1 operation", document, identity), document])


def _unknown(count: int) -> tuple[OperationId, ...]:
    return tuple(OperationId(bytes([number + 1]) * 32) for number in range(count))


_WORSE: dict[str, tuple[Callable[[Operation, Identity], bytes], str]] = {
    "nine parents": (
        lambda genuine, identity: _next(genuine, identity, parents=_unknown(9), height=2),
        "1 operation refused: limit: signed operation: field 6: it follows more than 8 others",
    ),
    "a height that lies": (
        lambda genuine, identity: _next(genuine, identity, height=7),
        "1 operation refused: malformed: an operation's height must be one above its highest parent",
    ),
    "64 KiB and one": (
        lambda genuine, identity: _next(genuine, identity, body=bytes(MAXIMUM_OPERATION_BODY_BYTES + 1)),
        "1 operation refused: limit: signed operation: field 11: it says more than 65,536 bytes",
    ),
    "a body that its kind does not allow": (
        lambda genuine, identity: _next(genuine, identity, body=b"\x80"),
        "1 operation refused: malformed: note: not an array of 4",
    ),
    "somebody else's signature": (
        lambda genuine, identity: _next(genuine, identity)[:10] + b"!" + _next(genuine, identity)[11:],
        "1 operation refused: signature: ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", _WORSE)
def test_of_a_stick_that_somebody_has_made_up_it_is_said_what_was_refused_and_why(
    pair: tuple[Here, Here], tmp_path: Path, lie: str
) -> None:
    ann, ben = pair
    make, said = _WORSE[lie]
    _made(ann, ben, tmp_path / "stick", make)
    ended = ben.covey("history", "import", str(tmp_path / "stick"))
    assert (ended.code, said in ended.stderr) == (1, True), ended
    assert "1 new operation, 0 known, 1 refused, 0 waiting for earlier ones" in ended.stdout
    assert _texts(ben) == ["a genuine one"]


@pytest.mark.slow
def test_operations_with_missing_parents_are_reported(pair: tuple[Here, Here], tmp_path: Path) -> None:
    """Ids are hashes, so who pretends to a circle names what nobody can have."""
    ann, ben = pair
    stick = tmp_path / "stick"
    _made(ann, ben, stick, lambda genuine, identity: _next(genuine, identity, parents=_unknown(1), height=2))
    ended = ben.covey("history", "import", str(stick))
    assert ended.code == 0
    assert "1 new operation, 0 known, 0 refused, 1 waiting for earlier ones" in ended.stdout
    assert "hint: import a file that contains" in ended.stderr
