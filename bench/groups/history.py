"""History: taking 10,000 operations of 100 authors, and catching up after a long absence.

The peers: verifying as many Ed25519 signatures and nothing else, which no design can do without; and `git fetch` of the
same history as commits that are signed as by `ssh-keygen` (`signed_commits.py`), which git fetches without verifying
them. Times are of the processor.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench.groups.signed_commits import fetch_signed
from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import Member, sign_manifest
from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull, OperationBundle
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import OperatorChange, SettingOrder
from covey.core.ids import GroupId, Incarnation
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.nodes import OrderNode
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import Message, MessageType
from covey.limits.history import BUNDLE_OPERATIONS, MAXIMUM_PARENTS
from tests.fleet import Device

_AUTHORS = 100
_ORDERS = 100
_OPERATIONS = 10_000
_NOTE = Note("text/plain", b"pump 3 rattles again; oiled it, and ordered a bearing").to_wire()


def main() -> None:
    """Measure and print."""
    operations, authors = _OPERATIONS, _AUTHORS
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(7)
        device, group_id, identities = _member_of_a_crowd(Path(folder), authors, chance)
        written = _written(device, group_id, identities, operations, chance)
        raw_bytes = sum(len(each.raw) for each in written)
        print(f"{operations:,} operations by {authors} authors, {raw_bytes / operations:.0f} bytes each")
        taken_s, peak_mib = _take(device, group_id, written)
        bare_s = _verify(written)
        print(f"  taken and stored: {taken_s:.2f} s, {taken_s / bare_s:.2f} times their signatures' {bare_s:.2f} s")
        print(f"  memory while doing so: + {peak_mib:.1f} MiB")
        _catch_up(device, group_id, written, Path(folder))
        _scattered(device, group_id, written)
        _judge(device, group_id, identities[0])


def _member_of_a_crowd(folder: Path, authors: int, chance: random.Random) -> tuple[Device, GroupId, list[Identity]]:
    """Return a device in a group with that many others, which can write as we like."""
    device = Device("reader", folder)
    identities = [Identity.from_seeds(chance.randbytes(32), chance.randbytes(32)) for _ in range(authors)]
    with device.store.transaction():
        first = device.node.membership.create("reader", (), device.now.wall_us)
        others = tuple(Member(each.keys, since=2) for each in identities)
        members = tuple(sorted((*first.members, *others), key=lambda each: each.keys.signing_public))
        grown = sign_manifest(replace(first.draft(), members=members), device.identity)
        device.store.groups.save_manifest(first.group_id, grown.hash, grown.version, grown.raw, 0)
    device.node.refresh()
    return device, first.group_id, identities


def _written(
    device: Device, group_id: GroupId, identities: list[Identity], count: int, chance: random.Random
) -> list[Operation]:
    """Return operations that follow one another as those of people do who are not always connected."""
    named = device.node.groups.group(group_id).hash
    last: dict[bytes, Operation] = {}
    heads: dict[bytes, Operation] = {}
    written = []
    for _ in range(count):
        author = chance.choice(identities)
        own = last.get(author.signing_public)
        follows = chance.sample(list(heads.values()), min(len(heads), chance.randint(1, MAXIMUM_PARENTS - 1)))
        parents = {each.id: each for each in (*follows, *([own] if own else []))}
        height = 1 + max((each.height for each in parents.values()), default=0)
        number, previous = (1, None) if own is None else (own.number + 1, own.id)
        log = Log(author.signing_public, Incarnation(bytes(8)))
        made = Operation(group_id, log, number, previous, tuple(sorted(parents)), height, named, 0, 1, _NOTE)
        signed = sign_operation(made, author)
        for each in parents:
            heads.pop(each, None)
        heads[signed.id] = last[author.signing_public] = signed
        written.append(signed)
    return written


def _bundles(written: list[Operation]) -> Iterator[bytes]:
    in_order = sorted(written, key=lambda each: (each.height, each.id))
    for start in range(0, len(in_order), BUNDLE_OPERATIONS):
        raws = tuple(each.raw for each in in_order[start : start + BUNDLE_OPERATIONS])
        yield OperationBundle(raws).to_wire()


def _message(device: Device, group_id: GroupId, kind: MessageType, body: bytes) -> Message:
    author = device.node.groups.group(group_id).members[0].keys.signing_public
    return Message(kind, author, device.key, group_id, Incarnation(bytes(8)), 1, 1, 0, body, b"")  # type: ignore[arg-type] # any number


def _take(device: Device, group_id: GroupId, written: list[Operation]) -> tuple[float, float]:
    """Return seconds of the processor, and MiB by which the process grew."""
    before = _resident_mib()
    started = time.process_time()
    for body in _bundles(written):
        with device.store.transaction():
            device.node.history.receive(_message(device, group_id, MessageType.OPERATIONS, body), device.now)
    return time.process_time() - started, _resident_mib() - before


def _resident_mib() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _verify(written: list[Operation]) -> float:
    signature = crypto.sign(b"bench", written[0].raw, identity := Identity.from_seeds(bytes(32), bytes(32)))
    started = time.process_time()
    for _ in written:
        crypto.verify(b"bench", written[0].raw, signature, identity.signing_public)
    return time.process_time() - started


def _judge(device: Device, group_id: GroupId, operator: Identity) -> None:
    """Print what it takes to find which orders count: by what is kept for that, and by reading all operations."""
    _give_orders(device, group_id, operator)
    pins, members = Pins(frozenset({operator.signing_public})), frozenset({operator.signing_public})
    by_index, counting = _seconds(lambda: weigh_orders(device.store.operations, group_id, pins, members, (), _ORDER))
    by_all, same = _seconds(lambda: weigh_orders(_Everything(device), group_id, pins, members, (), _ORDER))
    assert counting == same, "the two ways must agree"
    print(f"  judging {len(counting.orders)} orders among them: {by_index:.3f} s, reading all of it {by_all:.2f} s")


_ORDER = OperationKind.SETTING


def _seconds(judge: Callable[[], WeighedOrders]) -> tuple[float, WeighedOrders]:
    started = time.process_time()
    found = judge()
    return time.process_time() - started, found


def _give_orders(device: Device, group_id: GroupId, operator: Identity) -> None:
    """Have an operator remove itself once, which makes what follows what matter, and set something, many times."""
    store, named = device.store.operations, device.node.groups.group(group_id).hash
    log, previous = Log(operator.signing_public, Incarnation(bytes([1] * 8))), None
    with device.store.transaction():
        for number in range(1, _ORDERS + 1):
            parents = tuple(store.heads(group_id)[:MAXIMUM_PARENTS])
            height = 1 + max(held.height for each in parents if (held := store.held(group_id, each)) is not None)
            body: OperationBody = SettingOrder(EVERYBODY, f"app.{number % 10}", number)
            if number == _ORDERS // 2:
                body = OperatorChange(operator.signing_public, "", added=False)
            made = Operation(
                *(group_id, log, number, previous, parents, height, named, 0, int(body.kind), body.to_wire())
            )
            signed = sign_operation(made, operator)
            store.add(signed, 2, 0)
            previous = signed.id


class _Everything:
    """A group's operations, each with all that it follows: what judging without an index has to read."""

    def __init__(self, device: Device) -> None:
        self._store = device.store.operations
        self.raw = self._store.raw

    def nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield all operations."""
        arrivals: dict[bytes, int] = {}
        for number, stored in enumerate(self._store.in_order(group_id)):
            each = read_operation(stored.raw, verify=False)
            arrivals[each.id] = number
            subject = SettingOrder.from_wire(each.body).key.encode() if each.kind == _ORDER else None
            follows = tuple(arrivals[parent] for parent in each.parents)
            yield OrderNode(number, each.height, each.id, each.log, each.number, each.kind, subject, follows)

    judged_nodes = nodes


def _catch_up(device: Device, group_id: GroupId, written: list[Operation], folder: Path) -> None:
    """Print what a member costs that has all but the last tenth, and what git needs to fetch it as signed commits."""
    in_order = sorted(written, key=lambda each: (each.height, each.id))
    there = len(in_order) * 9 // 10
    missing, spent, sent = _give(device, group_id, written, _ends(in_order[:there]))
    print(f"  a member that lacks a tenth: {sent / missing:.3f} times the missing bytes, {spent:.2f} s to give them")
    git = fetch_signed(folder, in_order[:there], in_order[there:])
    times = git.bytes / missing
    print(f"    git fetch of that tenth as signed commits: {times:.3f} times those bytes, {git.seconds:.2f} s")
    print(f"    none is verified by that: it takes {git.verify_s * 1000:.1f} ms for each beside")


def _scattered(device: Device, group_id: GroupId, written: list[Operation]) -> None:
    """Print what it costs beyond the operations to give a member those that it lacks of as many logs, one of each."""
    ends = {log: number - 1 for log, number in _ends(written).items()}
    missing, spent, sent = _give(device, group_id, written, ends)
    print(f"  {len(ends)} differences in as many logs: {sent - missing:,} bytes beyond the operations, {spent:.2f} s")


def _ends(operations: list[Operation]) -> dict[Log, int]:
    ends: dict[Log, int] = {}
    for each in operations:
        ends[each.log] = max(ends.get(each.log, 0), each.number)
    return ends


def _give(device: Device, group_id: GroupId, written: list[Operation], ends: dict[Log, int]) -> tuple[int, float, int]:
    """Return the bytes of operations behind these ends, seconds to give them, and bytes of questions and answers."""
    missing = sum(len(each.raw) for each in written if each.number > ends.get(each.log, 0))
    sent, started = 0, time.process_time()
    for _ in range(len(written)):
        pull = HistoryPull(ends).to_wire()
        message = _message(device, group_id, MessageType.HISTORY_PULL, pull)
        answer = device.node.history.exchange.answering.answer(message, HistoryPull.from_wire(pull))
        if not answer:
            break
        sent += len(pull) + len(answer[0].body)
        _note_ends(ends, answer[0].body)
    return missing, time.process_time() - started, sent


def _note_ends(ends: dict[Log, int], body: bytes) -> None:
    for raw in OperationBundle.from_wire(body).operations:
        operation = read_operation(raw, verify=False)
        ends[operation.log] = max(ends.get(operation.log, 0), operation.number)


if __name__ == "__main__":
    main()
