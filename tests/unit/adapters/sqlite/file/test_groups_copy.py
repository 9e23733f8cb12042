"""`GroupsCopy`: what the file says is what was written, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.file.groups_copy import COPIED_SECRETS, CopiedGroup, GroupsCopy
from covey.core.ids import GroupId
from covey.limits.storage import GROUPS_COPY_BYTES
from tests.durable import DurableDevice
from tests.fleet import found

_KEY = StorageKey(bytes(32))
_GROUP = CopiedGroup(GroupId(bytes(32)), (b"one", b"two"), ((b"epoch", b"secret"),))


def test_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state-groups"
    assert GroupsCopy(path, _KEY).read() == []
    GroupsCopy(path, _KEY).write([_GROUP])
    content = path.read_bytes()
    assert GroupsCopy(path, _KEY).read() == [_GROUP]
    assert b"secret" not in content
    assert GroupsCopy(path, StorageKey(b"another device's".ljust(32))).read() == []
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert GroupsCopy(path, _KEY).read() == [], place
        path.write_bytes(content[:place])
        assert GroupsCopy(path, _KEY).read() == [], place


def test_the_file_is_bounded_and_small_groups_come_first(tmp_path: Path) -> None:
    copy = GroupsCopy(tmp_path / "state-groups", _KEY)
    large = [CopiedGroup(GroupId(bytes([number] * 32)), (bytes(20_000),), ()) for number in range(9)]
    many = CopiedGroup(GroupId(b"m" * 32), (b"raw",), tuple((b"e%d" % each, b"s") for each in range(99)))
    copy.write([*large, many])
    found = copy.read()
    assert found == [CopiedGroup(many.group_id, many.manifests, many.secrets[:COPIED_SECRETS]), *large[:3]]
    assert (tmp_path / "state-groups").stat().st_size <= GROUPS_COPY_BYTES + 100


def test_an_unchanged_copy_is_not_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "state-groups"
    GroupsCopy(path, _KEY).write([_GROUP])
    before = path.stat()
    copy = GroupsCopy(path, _KEY)
    copy.write([_GROUP])
    copy.write([_GROUP])
    assert path.stat().st_ino == before.st_ino
    copy.write([])
    assert copy.read() == []


@pytest.mark.slow
def test_a_group_that_is_left_goes_from_the_copy(tmp_path: Path) -> None:
    ann, ben = DurableDevice("ann", tmp_path), DurableDevice("ben", tmp_path)
    group_id = found(ben, ann)
    copy = GroupsCopy(tmp_path / "ann-groups", StorageKey.of(ann.identity))
    [kept] = copy.read()
    assert kept.group_id == group_id
    with ann.store.transaction():
        ann.store.groups.forget(GroupId(group_id))
    assert copy.read() == []
    ann.stop()
    ben.stop()
