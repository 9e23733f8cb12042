"""What is kept of groups that cannot be used yet is bounded, whoever sends it; what is erased is in no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.group.manifest import manifest_hash
from covey.core.ids import INCARNATION_BYTES, EpochId, GroupId, Incarnation, LinkSeq, ManifestHash
from covey.core.wire.message import Message, MessageType, read_message, write_message
from covey.limits.group import (
    MAXIMUM_EARLY_BYTES,
    MAXIMUM_EARLY_MANIFESTS,
    MESSAGES_AHEAD,
    MESSAGES_AHEAD_OF_ONE,
    OPEN_VOTES,
)
from tests.fleet import identity, open_store

_GROUP = GroupId(bytes(32))
_INCARNATION = Incarnation(bytes(INCARNATION_BYTES))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = open_store(tmp_path / "state", _INCARNATION)
    yield opened
    opened.close()


def _vote(author: Identity, number: int) -> Message:
    me = identity("ann").signing_public
    raw = write_message(
        author, MessageType.GROUP_VOTE, me, _GROUP, _INCARNATION, number, LinkSeq(number), 1, b"comes too early"
    )
    return read_message(raw, verify=False)


def test_the_hashes_of_open_manifests_are_there_without_the_manifests(store: SqliteStore) -> None:
    with store.transaction():
        for version in (1, 2, 3):
            store.groups.save_manifest(_GROUP, manifest_hash(bytes([version])), version, bytes([version]), 1)
        store.groups.settle_manifests(_GROUP, 2)
    named = [(group_id, each) for group_id, each, _ in store.groups.manifests()]
    assert named
    assert sorted(store.groups.manifest_hashes()) == sorted(named)


def test_early_messages_are_bounded_by_author_and_in_total(store: SqliteStore) -> None:
    authors = -(-MESSAGES_AHEAD // MESSAGES_AHEAD_OF_ONE) + 1
    with store.transaction():
        kept = [
            [
                store.ahead.keep(_vote(identity(f"member {each}"), number))
                for number in range(1, 2 * MESSAGES_AHEAD_OF_ONE)
            ]
            for each in range(authors)
        ]
    assert [sum(of_one) for of_one in kept] == [MESSAGES_AHEAD_OF_ONE] * (authors - 1) + [1], "one more each"
    assert len(store.ahead.of_group(_GROUP)) == sum(map(sum, kept)) == MESSAGES_AHEAD + 1
    with store.transaction():
        store.ahead.drop(store.ahead.of_group(_GROUP)[0][0])
        assert store.ahead.keep(_vote(identity(f"member {authors}"), 1)), "what was taken makes room"


@pytest.mark.slow
def test_an_admin_that_votes_about_everything_keeps_no_other_admins_votes_out(store: SqliteStore) -> None:
    admins = [identity(f"admin {number}").signing_public for number in range(5)]
    with store.transaction():
        kept = [
            sum(store.votes.save(_GROUP, each, b"%d %d" % (which, number), admins) for number in range(OPEN_VOTES))
            for which, each in enumerate(admins[:4])
        ]
        assert all(each >= OPEN_VOTES // 2 // len(admins) for each in kept), "each has its share"
        assert kept[0] > kept[1], "the first one has used what is common, too"
        assert store.votes.save(_GROUP, admins[4], b"the fifth", admins)
        assert len(store.votes.of_group(_GROUP)) <= OPEN_VOTES
        many = [identity(f"admin {number}").signing_public for number in range(OPEN_VOTES)]
        assert store.votes.save(_GROUP, many[-1], b"the last", many), "one is there for everybody"


@pytest.mark.slow
def test_former_admins_votes_give_their_room_back(store: SqliteStore) -> None:
    former, present = identity("former").signing_public, identity("present").signing_public
    with store.transaction():
        for number in range(OPEN_VOTES):
            assert store.votes.save(_GROUP, former, b"former %d" % number, [former])
        assert store.votes.save(_GROUP, present, b"present", [present])
        assert store.votes.of_group(_GROUP) == [b"present"]


@pytest.mark.parametrize(("size", "kept"), [(1, MAXIMUM_EARLY_MANIFESTS), (10_000, MAXIMUM_EARLY_BYTES // 10_000)])
def test_of_manifests_that_follow_something_unknown_the_lowest_are_kept(
    store: SqliteStore, size: int, kept: int
) -> None:
    versions = range(2 * MAXIMUM_EARLY_MANIFESTS, 0, -1)
    with store.transaction():
        for version in versions:
            marked = ManifestHash(version.to_bytes(32))
            store.groups.keep_early_manifest(_GROUP, marked, version, bytes([version]) * size)
    assert [raw[0] for raw in store.groups.early_manifests(_GROUP)] == [*range(1, kept + 1)]


@pytest.mark.parametrize("read_meanwhile", [False, True])
def test_erased_secrets_are_in_no_file(store: SqliteStore, tmp_path: Path, *, read_meanwhile: bool) -> None:
    secret = bytes(range(200, 232))
    with store.transaction():
        store.groups.save_secret(_GROUP, EpochId(bytes(16)), secret, 0)
    store.database.fold()
    assert store.groups.secret(_GROUP, EpochId(bytes(16))) == secret
    assert not _held(tmp_path, secret), "it is wrapped"
    [[wrapped]] = store.database.run("SELECT secret FROM epoch_secret")
    assert _held(tmp_path, wrapped)
    with closing(sqlite3.connect(tmp_path / "state")) as other:
        if read_meanwhile:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM epoch_secret").fetchone()
        other.execute("PRAGMA busy_timeout = 0")
        store.database.run("PRAGMA busy_timeout = 0")
        with store.transaction():
            store.groups.erase_content(_GROUP)
        assert _held(tmp_path, wrapped) == read_meanwhile, "who still reads it holds it"
    with store.transaction():
        pass
    assert not _held(tmp_path, wrapped)


def test_a_device_that_rejoins_keeps_unread_messages(store: SqliteStore) -> None:
    ben = identity("ben").signing_public
    with store.transaction():
        sent = LinkSeq(1), 1, b"said"
        blob = Message(MessageType.BLOB, ben, ben, _GROUP, Incarnation(bytes(8)), 1, *sent, b"raw")
        assert store.inbox.deliver(blob, 7)
        store.groups.forget_before_joining(_GROUP)
    assert [row[5] for row in store.inbox.arrived(9)] == [b"said"]


@pytest.mark.parametrize(
    "forget",
    [
        lambda store: store.groups.forget(_GROUP),
        lambda store: store.groups.erase_content(_GROUP),
        lambda store: store.groups.note_revocation(_GROUP, b"destroyed, and not everybody knows"),
    ],
    ids=["forgotten", "erased", "destroyed"],
)
def test_erasing_a_group_deletes_unread_messages(
    store: SqliteStore, forget: Callable[[SqliteStore], None]
) -> None:  # accepts: 000.23
    """A destroyed group's unread messages were once readable while the device was in another group."""
    ann, ben = identity("ann"), identity("ben").signing_public
    with store.transaction():
        for number, group_id in enumerate((_GROUP, _GROUP, GroupId(b"o" * 32)), 1):
            sent = LinkSeq(number), 1, b"said"
            blob = Message(MessageType.BLOB, ben, ben, group_id, Incarnation(bytes(8)), number, *sent, b"raw")
            assert store.inbox.deliver(blob, 7)
            kept = write_message(
                ann, MessageType.BLOB, ben, group_id, Incarnation(bytes(8)), number, LinkSeq(number), 1, b"odd"
            )
            store.quarantine.add("malformed", kept, 7, ann.signing_public)
        forget(store)
    assert [row[1] for row in store.inbox.arrived(9)] == [GroupId(b"o" * 32)]
    assert [read_message(each.message, verify=False).group_id for each in store.quarantine.entries()] == [
        GroupId(b"o" * 32)
    ]
    assert store.database.one("SELECT inbox_bytes FROM device") == len(b"said")


def _held(folder: Path, secret: bytes) -> bool:
    return any(secret in each.read_bytes() for each in folder.glob("state*") if each.is_file())
