"""`covey.app.telemetry.node_keys`: a removal rotates vault keys by itself, and who may read goes on reading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core import crypto
from covey.core.group.manifest import COLLECTOR, Member
from covey.core.ids import NoisePublic, node_id
from covey.core.vault.key_file import KeyFile, VaultKeyReader
from covey.core.vault.key_object import key_object_key, read_key_object, seal_key_object
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.errors import RemoteError, StorageError
from covey.limits.vault import VAULT_ROTATION_US
from tests.fleet import Device, carry, identity
from tests.two_collectors import World
from tests.vault_keys import MemoryKeyFile
from tests.vault_site import KEY, Objects, Site


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _land(world: World, *bodies: bytes, up: tuple[Device, ...]) -> None:
    world.publish(*bodies)
    world.pass_time(30, *up)


def _opened(objects: Objects, ring: KeyRing, node: str) -> int | str:
    """Return how many segments of a node a reader opens, or what keeps it from its manifest."""
    reader = VaultReader(objects, KeyRing(ring.keys, ring.reader_secret))
    manifest = reader.manifest(node, Floor())
    return manifest.code if isinstance(manifest, Trouble) else manifest.last_number


def _opens_alone(objects: Objects, ring: KeyRing) -> set[str]:
    """Return the segments that these keys open, whatever manifests say; with them is all that the store holds."""
    opened = set()
    for name, content in objects.content.items():
        try:
            ring.for_object(content)
        except RemoteError:
            continue
        if name.endswith(".hxseg"):
            opened.add(name)
    return opened


# accepts: 004.19
@pytest.mark.slow
def test_a_removed_collector_opens_nothing_that_landed_after(world: World) -> None:
    everybody = (world.bob, world.first, world.second)
    world.appoint(world.bob)
    _land(world, b"one", b"two", up=everybody)
    node, before = node_id(world.first.key).hex(), set(world.objects.content)
    stolen = world.key_files[world.second.name].content
    assert _opened(world.objects, stolen.ring(), node) == 1

    world.remove(world.second, by=world.bob)
    carry(world.ann, world.bob, world.first)  # who was removed hears nothing of it
    _land(world, b"three", up=(world.bob, world.first))
    landed = [bytes(each) for each in world.bodies(world.first)]
    assert landed == [b"one", b"three", b"two"]
    later = {name for name in set(world.objects.content) - before if name.endswith(".hxseg")}
    assert later
    assert _opened(world.objects, stolen.ring(), node) == "vault_key"
    assert not _opens_alone(world.objects, stolen.ring()) & later
    assert _opens_alone(world.objects, stolen.ring()), "what it could read it still can"
    shared = world.objects.content[key_object_key(KEY.vault_id, node_id(world.first.key))]
    with pytest.raises(RemoteError):
        read_key_object(KEY.vault_id, node_id(world.first.key), shared).open(stolen.ring())


@pytest.mark.slow
def test_those_who_stay_read_each_other_after_each_removal(world: World) -> None:
    everybody = (world.bob, world.first, world.second)
    for each in (world.first, world.second):  # each shows that it holds the key
        keys = _keys(world, each)
        keys.prepare(each.node.groups.joined(), each.now)
    _land(world, b"one", up=everybody)
    for number in range(2):
        guest = _let_in(world, f"guest {number}", everybody)
        world.remove(guest, by=world.ann)
        carry(world.ann, *everybody)
        _land(world, f"after {number}".encode(), up=everybody)
        for each in (world.first, world.second):
            _keys(world, each).prepare(each.node.groups.joined(), each.now)
    rings = [world.key_files[each.name].content for each in (world.first, world.second)]
    assert [len(each.keys) for each in rings] == [3, 3]
    assert rings[0].newest != rings[1].newest, "each node draws its own"
    node = node_id(world.first.key).hex()
    assert _opened(world.objects, rings[1].ring(), node) == _opened(world.objects, rings[0].ring(), node) == 3


def _keys(world: World, device: Device) -> NodeKeys:
    return NodeKeys(device.identity, world.key_files[device.name], device.store, world.objects, device.rng)


def _let_in(world: World, name: str, everybody: tuple[Device, ...]) -> Device:
    guest = Device(name, world.ann.path.parent)
    with world.ann.store.transaction():
        member = Member(guest.identity.keys)
        world.ann.node.actions.change(world.group_id, lambda draft, _: draft.adding(member), world.ann.now)
    carry(world.ann, *everybody)
    return guest


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _remove_some(site: Site, *names: str) -> None:
    """Let some devices in, and remove each by a manifest of its own, in one commit of the collector's."""
    change, now = site.gate.node.actions.change, site.gate.now
    with site.gate.store.transaction():
        for name in names:
            keys = identity(name).keys
            change(site.group_id, lambda draft, _, keys=keys: draft.adding(Member(keys)), now)
            change(site.group_id, lambda draft, epoch, keys=keys: draft.removing(keys.signing_public, epoch), now)


def _key_ids(site: Site, suffix: str = ".hxseg") -> list[bytes]:
    return [site.objects.content[name][6:14] for name in site.objects.puts if name.endswith(suffix)]


@pytest.mark.slow
def test_removals_of_one_turn_cost_one_key(site: Site) -> None:
    _remove_some(site, *(f"guest {number}" for number in range(60)))
    removed_us = site.gate.now.wall_us
    site.send(b"one")
    site.land()
    assert len(site.key_file.content.keys) == 2
    assert site.key_file.content.newest.since_us == removed_us
    assert _key_ids(site) == _key_ids(site, ".hxman") == [site.key_file.content.newest.key_id]
    site.send(b"two")
    site.land()
    assert len(site.key_file.content.keys) == 2, "nobody was removed since"
    assert site.landed() == [b"one", b"two"]


def test_endless_removals_do_not_fill_the_disk(site: Site) -> None:
    _remove_some(site, "first guest")
    site.send(b"one")
    site.land()
    _remove_some(site, "second guest")
    site.send(b"two")
    site.turn()
    assert site.turn(10) is not None
    assert (len(site.key_file.content.keys), site.landed()) == (2, [b"one"])
    assert site.said == [], "that is no fault of the vault's"
    site.turn(VAULT_ROTATION_US / 1e6)
    assert (len(site.key_file.content.keys), site.landed()) == (3, [b"one", b"two"])


class _PowerCut(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", ["before the file", "after the file", "after the key object"])
def test_a_rotation_that_the_power_ended_is_finished_by_the_next_start(
    site: Site, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.send(b"one")
    site.land()
    _remove_some(site, "guest")
    site.send(b"two")
    site.turn()
    write, replaces = site.key_file.write, site.objects.replace

    def cut_beside_the_file(content: KeyFile) -> None:
        if step == "after the file":
            write(content)
        raise _PowerCut

    def cut_after_the_object(key: str, content: bytes, before: bytes | None) -> None:
        replaces(key, content, before)
        raise _PowerCut

    with monkeypatch.context() as patched:
        if step == "after the key object":
            patched.setattr(site.objects, "replace", cut_after_the_object)
        else:
            patched.setattr(site.key_file, "write", cut_beside_the_file)
        with pytest.raises(_PowerCut):
            site.turn(10)
    assert site.landed() == [b"one"]
    site.start()
    site.land()
    assert site.landed() == [b"one", b"two"]
    assert len(site.key_file.content.keys) == 2
    assert _key_ids(site)[-1] == site.key_file.content.newest.key_id != KEY.key_id


def test_a_segment_planned_before_a_removal_is_sealed_with_the_new_key(site: Site) -> None:
    site.objects.refuses = (".hxseg",)
    site.send(b"one")
    site.land()
    assert site.gate.store.landing.plan() is not None
    _remove_some(site, "guest")
    site.objects.refuses = ()
    site.objects.puts.clear()
    site.turn(10)
    assert site.landed() == [b"one"]
    assert _key_ids(site) == [site.key_file.content.newest.key_id] != [KEY.key_id]


@pytest.mark.parametrize("refused", [".hxkey"])
def test_nothing_lands_if_the_key_object_cannot_be_stored(site: Site, refused: str) -> None:
    _remove_some(site, "guest")
    site.objects.refuses = (refused,)
    site.send(b"one")
    site.land()
    assert site.landed() == []
    assert "refuses" in site.said[0]
    site.objects.refuses = ()
    site.turn(60)
    assert site.landed() == [b"one"]


def test_a_group_that_is_destroyed_or_left_ends_a_key_too(site: Site) -> None:
    with site.gate.store.transaction():
        other = site.gate.node.membership.create("another", (COLLECTOR,), site.gate.now.wall_us).group_id
    site.send(b"one")
    site.land()
    assert len(site.key_file.content.keys) == 1, "one group more is nobody less"
    with site.gate.store.transaction():
        site.gate.node.actions.leave(other, site.gate.now)
    site.send(b"two")
    site.land()
    assert len(site.key_file.content.keys) == 2


def test_a_copy_of_the_keys_is_given_later_ones_if_a_person_says_so(site: Site) -> None:
    node, objects = node_id(site.gate.key).hex(), site.objects
    still = site.key_file.content.copy()
    follows = replace(still, reader_secret=bytes(range(2, 34)))
    assert follows.reader_public is not None
    site.key_file.write(replace(site.key_file.content, readers=(VaultKeyReader(follows.reader_public),)))
    for number in range(3):
        _remove_some(site, f"guest {number}")
        site.send(str(number).encode())
        site.land()
        site.turn(60)
    assert len(site.key_file.content.keys) == 4
    assert _opened(objects, still.ring(), node) == "vault_key"
    assert _opened(objects, follows.ring(), node) == 3, "also where it was away for several rotations"

    site.key_file.write(replace(site.key_file.content, readers=()))
    site.keys().rotate(site.gate.node.groups.joined(), site.gate.now)
    site.send(b"last")
    site.land()
    assert _opened(objects, follows.ring(), node) == "vault_key"
    assert len(_opens_alone(objects, site.key_file.content.ring())) == 4


def test_a_member_is_no_reader_by_saying_so(site: Site) -> None:
    """Somebody who does not hold the key puts a key object of its own, sealed with keys of its own."""
    liar, file = site.ann, MemoryKeyFile(VaultKey(KEY.vault_id, bytes(32)))
    file.content = replace(file.content, reader_secret=bytes(range(3, 35)))
    name = key_object_key(KEY.vault_id, node_id(liar.key))
    site.objects.put(name, seal_key_object(liar.identity, file.content, liar.rng))
    for damaged in (b"", b"\x00" * 100, site.objects.content[name][:-1]):
        site.objects.put(f"{name[:-10]}ffffff.hxkey", damaged)
    _remove_some(site, "guest")
    site.send(b"one")
    site.land()
    assert site.key_file.content.readers == ()
    assert site.landed() == [b"one"]


def test_a_key_object_is_what_its_node_signed(site: Site) -> None:
    node = node_id(site.gate.key)
    content = site.objects.content[key_object_key(KEY.vault_id, node)]
    assert read_key_object(KEY.vault_id, node, content).open(site.key_file.content.ring()) == (KEY,)
    for place in range(0, len(content), 7):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(RemoteError):
            read_key_object(KEY.vault_id, node, damaged).open(site.key_file.content.ring())
    with pytest.raises(RemoteError):
        read_key_object(KEY.vault_id, node_id(site.ann.key), content)


def test_a_key_file_says_what_it_said(site: Site) -> None:
    public = NoisePublic(crypto.scalar_base(bytes(range(32))))
    content = replace(site.key_file.content, readers=(VaultKeyReader(public, site.ann.key), VaultKeyReader(public)))
    assert KeyFile.parse(content.to_text()) == content
    assert content.epochs
    assert content.reader_secret
    copy = content.copy()
    assert (copy.keys, copy.epochs, copy.readers, copy.reader_secret) == (content.keys, content.epochs, (), None)
    assert content.newest.key.hex() not in repr(content)
    assert content.reader_secret.hex() not in repr(content)


def test_the_twin_of_a_process_writes_no_older_keys(site: Site) -> None:
    """A command holds the keys as they were, and publishes after the agent has rotated."""
    groups = site.gate.node.groups.joined()
    late = site.keys()
    site.keys().rotate(groups, site.gate.now)
    site.keys().prepare(groups, site.gate.now)
    late.prepare(groups, site.gate.now)
    shared = site.objects.content[key_object_key(KEY.vault_id, node_id(site.gate.key))]
    assert shared
    assert len(site.key_file.content.keys) == 2
    assert len(read_key_object(KEY.vault_id, node_id(site.gate.key), shared).open(site.key_file.content.ring())) == 2


def test_too_many_keys_end_the_landing_and_lose_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.app.telemetry.node_keys.MAXIMUM_VAULT_KEYS", 1)
    _remove_some(site, "guest")
    site.send(b"one")
    site.land()
    assert site.landed() == []
    assert "1 keys" in site.said[0]
    with pytest.raises(StorageError):
        Collector.push(site.collector, site.gate.node, site.gate.now, lambda _: None)
