"""Reconciling: two devices with long histories that differ here and there, on both sides.

It counts every byte that the two publish until they are in step, sealed and padded, acknowledgements among them, less
the operations themselves. The peer: `git fetch` both ways between two repositories of as many commits on as many
branches, all that goes through its pipes less the packs that it brings; nothing of that is sealed, signed or
acknowledged.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.core.crypto import Identity
from covey.core.group.manifest import Member, sign_manifest
from covey.core.history.bodies import Note
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.ids import GroupId, Incarnation, inbox_name
from tests.fleet import Device

_OPERATIONS = 100_000
_DIFFERENCES = 100
"""Of each side: as many logs have one operation that the other side lacks."""
_COMMIT = 5_000
_PATIENCE = 200
_BODY = Note("text/plain", b"pump 3 rattles again; oiled it, and ordered a bearing").to_wire()


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder:
        rounds, beyond, missing, spent_s = _ours(Path(folder))
        print(f"two histories of {_OPERATIONS:,} operations, {_DIFFERENCES} differences on each side")
        print(
            f"  beyond the {missing:,} bytes of the operations: {beyond:,} bytes in {rounds} envelopes, {spent_s:.2f} s"
        )
        peer = _git(Path(folder))
        print(f"  git fetch both ways, beyond its packs: {peer:,} bytes; {beyond / peer:.2f} times that")


def _ours(folder: Path) -> tuple[int, int, int, float]:
    """Return how many envelopes went, bytes beyond the operations, bytes of these, and seconds of the processor."""
    chance = random.Random(7)
    one, two = Device("one", folder), Device("two", folder)
    authors = [Identity.from_seeds(chance.randbytes(32), chance.randbytes(32)) for _ in range(2 * _DIFFERENCES)]
    group_id = _group(one, two, authors)
    for device in (one, two):
        rest = _operations(device, group_id, authors, random.Random(7))
        while some := list(islice(rest, _COMMIT)):
            with device.store.transaction():
                for each in some:
                    device.store.operations.add(each, 2, 0)
        device.node.refresh()
    last = list(_last(one, group_id, authors))
    for device, lacked_by_other in ((one, last[:_DIFFERENCES]), (two, last[_DIFFERENCES:])):
        with device.store.transaction():
            for each in lacked_by_other:
                device.store.operations.add(each, 2, 0)
        device.node.refresh()
    missing, started = sum(len(each.raw) for each in last), time.process_time()
    published = _until_in_step(one, two, group_id)
    return len(published), sum(published) - missing, missing, time.process_time() - started


def _group(one: Device, two: Device, authors: list[Identity]) -> GroupId:
    with one.store.transaction():
        first = one.node.membership.create("one", (), one.now.wall_us)
        secret = one.node.membership.groups.secret(first.group_id)
    others = tuple(Member(each.keys, since=2) for each in (two.identity, *authors))
    members = tuple(sorted((*first.members, *others), key=lambda each: each.keys.signing_public))
    grown = sign_manifest(replace(first.draft(), members=members), one.identity)
    assert secret is not None
    for device in (one, two):
        with device.store.transaction():
            device.store.groups.save_manifest(first.group_id, first.hash, first.version, first.raw, 0)
            device.store.groups.save_manifest(first.group_id, grown.hash, grown.version, grown.raw, 0)
            device.store.groups.save_secret(first.group_id, grown.epoch_id, secret, 0)
        device.node.refresh()
    return first.group_id


def _operations(
    device: Device, group_id: GroupId, authors: list[Identity], chance: random.Random
) -> Iterator[Operation]:
    """Yield what all hold: each follows its author's last one, and the last one of somebody else."""
    named = device.node.groups.group(group_id).hash
    last: dict[bytes, Operation] = {}
    for _ in range(_OPERATIONS):
        author, other = chance.sample(authors, 2)
        before = last.get(author.signing_public)
        signed = _after(group_id, named, author, before, last.get(other.signing_public))
        last[author.signing_public] = signed
        yield signed


def _last(device: Device, group_id: GroupId, authors: list[Identity]) -> Iterator[Operation]:
    """Yield one more operation of each author, which follows the author's last one alone: somewhere in the history."""
    named = device.node.groups.group(group_id).hash
    for author in authors:
        end = device.store.operations.end_of(group_id, Log(author.signing_public, Incarnation(bytes(8))))
        held = None if end is None else device.store.operations.held(group_id, end.last)
        assert end is not None
        assert held is not None
        made = Operation(
            *(group_id, Log(author.signing_public, Incarnation(bytes(8))), end.number + 1, end.last, (end.last,)),
            *(held.height + 1, named, 0, 1, _BODY),
        )
        yield sign_operation(made, author)


def _after(
    group_id: GroupId, named: bytes, author: Identity, before: Operation | None, other: Operation | None
) -> Operation:
    follows = {each.id: each for each in (before, other) if each is not None}
    height = 1 + max((each.height for each in follows.values()), default=0)
    number, previous = (1, None) if before is None else (before.number + 1, before.id)
    log = Log(author.signing_public, Incarnation(bytes(8)))
    made = Operation(group_id, log, number, previous, tuple(sorted(follows)), height, named, 0, 1, _BODY)  # type: ignore[arg-type] # of one manifest
    return sign_operation(made, author)


def _until_in_step(one: Device, two: Device, group_id: GroupId) -> list[int]:
    """Have them meet; return the lengths of all envelopes until they hold the same, and have said so."""
    published: list[int] = []
    one.node.state.heads.plan(two.key, None, lambda least, _: least, one.now.monotonic_us, asks=True)
    for _ in range(_PATIENCE):
        for device, other in ((one, two), (two, one)):
            device.node.make_acknowledgements_due(device.now)
            for outgoing in device.sends():
                if outgoing.topic.endswith(inbox_name(other.key)):
                    published.append(len(outgoing.envelope))
                    other.receive(outgoing.envelope)
        if one.node.history.digest(group_id) == two.node.history.digest(group_id):
            return published
        for device in (one, two):
            device.wait(1)
            device.maintain()
    raise TimeoutError("two histories do not come into step")


def _git(folder: Path) -> int:
    repositories = folder / "one.git", folder / "two.git"
    for each in repositories:
        _run("init", "--quiet", "--bare", str(each))
        _run("-C", str(each), "fast-import", "--quiet", feed=b"".join(_commits(_OPERATIONS, 0)))
    sides = (range(_DIFFERENCES), range(_DIFFERENCES, 2 * _DIFFERENCES))
    for each, branches in zip(repositories, sides, strict=True):
        _run("-C", str(each), "fast-import", "--quiet", feed=b"".join(map(_next_commit, branches)))
    pipes = folder / "up", folder / "down"
    script = folder / "upload-pack"
    script.write_text(f'#!/bin/sh\ntee -a {pipes[0]} | git upload-pack "$@" | tee -a {pipes[1]}\n')
    script.chmod(0o700)
    packs = 0
    for target, source in (repositories, repositories[::-1]):
        before = set(target.rglob("*.pack"))
        words = ("fetch", "--quiet", f"--upload-pack={script}", f"file://{source}", "+refs/heads/*:refs/other/*")
        _run("-C", str(target), "-c", "fetch.unpackLimit=1", *words)
        packs += sum(each.stat().st_size for each in set(target.rglob("*.pack")) - before)
    return sum(each.stat().st_size for each in pipes) - packs


def _commits(count: int, first: int) -> Iterator[bytes]:
    for number in range(first, first + count):
        yield _commit(number % (2 * _DIFFERENCES), f"note {number}")


def _next_commit(branch: int) -> bytes:
    return _commit(branch, "one more", f"from refs/heads/b{branch}^0\n")


def _commit(branch: int, text: str, after: str = "") -> bytes:
    head = f"commit refs/heads/b{branch}\ncommitter a{branch} <a{branch}@covey> 1 +0000\n"
    return f"{head}data {len(text)}\n{text}\n{after}\n".encode()


def _run(*words: str, feed: bytes = b"") -> None:
    subprocess.run(["git", *words], input=feed, check=True, capture_output=True)


if __name__ == "__main__":
    main()
