"""`covey.app.telemetry.mending`: a damaged segment comes back from who holds it, and the rest is reported as lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.app.telemetry.compactor import Compactor
from covey.app.telemetry.erasing import Eraser
from covey.app.telemetry.mending import Mirror, VaultMending
from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import DeviceKey, OperationId, node_id
from covey.core.vault import documents
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.landing import DAMAGED_CONDITION
from covey.core.vault.reading import VaultReader
from covey.core.wire.message import Loss, LossReason, MessageType, read_message
from covey.errors import StorageError
from covey.limits.vault import VAULT_LOOK_US
from tests.fleet import carry
from tests.vault_site import KEY, Objects, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _keep(site: Site, *bodies: bytes) -> None:
    """Land each in a segment of its own, acknowledged."""
    for body in bodies:
        site.send(body)
        site.land()
        site.ann.wait(400)
        carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def _key(site: Site, number: int) -> str:
    manifest = site.manifest()
    assert manifest is not None
    return documents.entry_key(KEY.vault_id, node_id(site.gate.key), manifest.segments[number - 1])


def _mending(site: Site, *mirrors: Mirror) -> VaultMending:
    return VaultMending(site.collector, site.gate.store, mirrors, lambda _level, line: site.said.append(line))


def _settle(site: Site, mending: VaultMending) -> None:
    """Let the role look, acknowledgements, what is sent again, and losses come and be landed."""
    for _ in range(8):
        mending.turn(site.gate.node, site.gate.now)
        site.gate.wait(VAULT_LOOK_US / 1e6)
        site.ann.wait(400)
        carry(site.ann, site.gate)
        site.land()


def _whole(site: Site) -> list[bytes]:
    """Return the telemetry of all segments that are whole."""
    found = list[bytes]()
    manifest, node = site.manifest(), node_id(site.gate.key)
    assert manifest is not None
    for entry in manifest.segments:
        content = site.objects.content.get(documents.entry_key(KEY.vault_id, node, entry), b"")
        if documents.is_segment(entry, content):
            records = documents.open_segment(site.ring.for_object(content), node, entry, content)
            found += [each.message for each in records if record_kind(each.message) is RecordKind.MESSAGE]
    return found


def _telemetry(site: Site) -> list[bytes]:
    """Return the telemetry of all segments that are whole, exactly as it was signed."""
    return sorted(raw for raw in _whole(site) if read_message(raw).type is MessageType.TELEMETRY)


def _losses(site: Site) -> list[Loss]:
    messages = [read_message(raw) for raw in _whole(site)]
    return [Loss.from_wire(each.body) for each in messages if each.type is MessageType.LOSS]


def _condition(site: Site) -> str:
    return site.gate.store.conditions.values().get(DAMAGED_CONDITION, ("", 0))[0]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    "truncated": lambda content: content[:-7],
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("how", [*DAMAGES, "lost"])
def test_senders_send_again_what_a_damaged_segment_held(site: Site, how: str) -> None:
    _keep(site, b"one", b"two", b"three")
    before, key = _telemetry(site), _key(site, 2)
    if how == "lost":
        del site.objects.content[key]
    else:
        site.objects.content[key] = DAMAGES[how](site.objects.content[key])
    assert len(_telemetry(site)) == 2
    _settle(site, _mending(site))
    assert _telemetry(site) == before
    assert _losses(site) == []
    assert _condition(site) == "2"
    [line] = [line for line in site.said if "damaged" in line]
    assert "segment 2" in line
    assert "1 message" in line
    assert "ann" in line


def test_what_senders_no_longer_have_becomes_a_signed_loss(site: Site) -> None:
    _keep(site, b"one", b"two", b"three")
    with site.ann.store.transaction():
        site.ann.store.database.run("DELETE FROM acknowledged_message")
    del site.objects.content[_key(site, 2)]
    mending = _mending(site)
    _settle(site, mending)
    [loss] = _losses(site)
    assert loss.reason is LossReason.RECIPIENT_LOST
    assert loss.numbers == ((2, 2),)
    _settle(site, mending)
    assert len(_losses(site)) == 1, "it is asked for once"


def test_a_mirror_restores_the_same_bytes_and_is_believed_nothing_else(site: Site) -> None:
    _keep(site, b"one", b"two", b"three")
    before, mirror, liar, key = dict(site.objects.content), Objects(), Objects(), _key(site, 2)
    mirror.content = dict(before)
    liar.content = {name: content[:-1] + b"?" for name, content in before.items()}
    del site.objects.content[key]

    def away() -> Objects:
        raise StorageError("it is not there")

    _settle(site, _mending(site, ("away", away), ("liar", lambda: liar), ("mirror", lambda: mirror)))
    assert site.objects.content[key] == before[key]
    assert _condition(site) == ""
    assert site.gate.store.counters.values()["restored_segments"] == 1
    assert "restored from mirror" in site.said[-1]


def test_a_segment_that_is_whole_again_is_forgotten(site: Site) -> None:
    _keep(site, b"one", b"two")
    key = _key(site, 1)
    good = site.objects.content.pop(key)
    mending = _mending(site)
    _settle(site, mending)
    assert _condition(site) == "1"
    site.objects.content[key] = good
    _settle(site, _mending(site))
    assert _condition(site) == ""


@pytest.mark.slow
def test_looks_at_many_small_segments_go_through_them_once_a_minute(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at all of them kept a collector of a year's small segments from everything else."""
    _keep(site, *(b"%d" % number for number in range(44)))
    segments = [_key(site, number) for number in range(1, 45)]
    looked_at, keys_read = list[str](), list[str]()
    get, read = site.objects.get, site.key_file.read
    monkeypatch.setattr(site.objects, "get", lambda key, maximum: looked_at.append(key) or get(key, maximum))
    monkeypatch.setattr(site.key_file, "read", lambda: keys_read.append("read") or read())
    mending, rounds = _mending(site), list[str]()
    for _ in range(11):
        looked_at.clear()
        mending.turn(site.gate.node, site.gate.now)
        site.gate.wait(VAULT_LOOK_US / 1e6)
        rounds += (found := [each for each in looked_at if each in segments])
        assert len(found) == 4
    assert sorted(rounds) == sorted(segments)
    assert keys_read == ["read"]


def test_a_vault_that_is_away_is_no_damage(site: Site) -> None:
    _keep(site, b"one")
    content, site.objects.content = site.objects.content, {}
    mending = _mending(site)
    mending.turn(site.gate.node, site.gate.now)
    assert _condition(site) == ""
    site.objects.content = content


def test_a_restart_asks_nobody_again(site: Site) -> None:
    _keep(site, b"one", b"two")
    del site.objects.content[_key(site, 1)]
    mending = _mending(site)
    for _ in range(2):
        mending.turn(site.gate.node, site.gate.now)
        site.gate.wait(VAULT_LOOK_US / 1e6)
    said = len(site.said)
    assert said
    site.start()
    _settle(site, _mending(site))
    assert not [line for line in site.said[said:] if "damaged" in line]
    assert len(_telemetry(site)) == 2


def test_a_vault_that_is_damaged_throughout_fills_once_more(site: Site) -> None:
    _keep(site, b"one", b"two", b"three")
    before = _telemetry(site)
    for number in (1, 2, 3):
        del site.objects.content[_key(site, number)]
    _settle(site, _mending(site))
    assert _telemetry(site) == before
    assert _losses(site) == []


def _erase(site: Site, author: DeviceKey) -> None:
    node = NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    due = ErasureDue(author, site.gate.now.wall_us)
    eraser = Eraser(node, site.gate.store, site.gate.rng)
    assert eraser.erase(due, OperationId(bytes(32)), site.gate.now.wall_us, lambda *_: None).is_whole


def test_what_was_erased_is_not_asked_for_again(site: Site) -> None:
    _keep(site, b"one", b"two", b"three")
    mending = _mending(site)
    _erase(site, site.ann.key)
    mending.turn(site.gate.node, site.gate.now)
    assert _condition(site) == "", "what another process has replaced is no damage"
    _keep(site, b"four")
    after = _telemetry(site)
    del site.objects.content[_key(site, 1)]
    _settle(site, mending)
    assert _condition(site) != ""
    assert _telemetry(site) == after
    assert "no device can repeat" in " ".join(site.said)


def test_what_another_process_has_merged_is_no_damage(site: Site) -> None:
    _keep(site, b"one", b"two", b"three", b"four")
    mending = _mending(site)
    node = NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    compactor = Compactor(node, site.gate.store, site.gate.rng)
    for _ in range(2):
        now_us = site.gate.now.wall_us
        compactor.compact(1_000_000, now_us, 0, now_us, lambda *_: None)
    before = _telemetry(site)
    _settle(site, mending)
    assert _condition(site) == ""
    del site.objects.content[_key(site, 1)]
    _settle(site, mending)
    assert _telemetry(site) == before, "of a merged segment, too"


@pytest.fixture
def folding(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """Five segments, of which the first two are in a list; return its key."""
    monkeypatch.setattr("covey.app.telemetry.collector.VAULT_RANGE_SEGMENTS", 2)
    _keep(site, b"one", b"two", b"three", b"four", b"five")
    [key] = [each for each in site.objects.content if each.endswith(".hxrange")]
    return key


@pytest.mark.parametrize("how", [*DAMAGES, "lost"])
def test_a_damaged_list_of_older_segments_is_made_again_from_these(site: Site, folding: str, how: str) -> None:
    good, before = site.objects.content[folding], site.landed_telemetry()
    if how == "lost":
        del site.objects.content[folding]
    else:
        site.objects.content[folding] = DAMAGES[how](good)
    _settle(site, _mending(site))
    assert site.objects.content[folding] == good
    assert site.landed_telemetry() == before
    assert _condition(site) == ""
    assert "made again from these" in site.said[-1]


def test_a_list_of_merged_segments_is_made_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What merging replaced still lies there."""
    _keep(site, *(b"%d" % number for number in range(8)))
    monkeypatch.setattr("covey.core.vault.merging.VAULT_RANGE_SEGMENTS", 2)
    node = NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    now_us = site.gate.now.wall_us
    Compactor(node, site.gate.store, site.gate.rng).compact(700, now_us, 7 * 86_400_000_000, now_us, lambda *_: None)
    _keep(site, b"the collector hears of it")
    manifest = site.manifest()
    assert manifest is not None
    assert manifest.ranges
    key = documents.range_key(KEY.vault_id, node_id(site.gate.key), manifest.ranges[0])
    opened = VaultReader(site.objects, site.ring).range_entries(node_id(site.gate.key).hex(), manifest.ranges[0])
    assert isinstance(opened, tuple)
    assert max(entry.covers for entry in opened) > 1
    good = site.objects.content.pop(key)
    _settle(site, _mending(site))
    assert site.objects.content[key] == good
    assert _condition(site) == ""


def test_a_store_that_shows_other_segments_gets_no_other_list(site: Site, folding: str) -> None:
    segments = sorted(each for each in site.objects.content if each.endswith(".hxseg"))
    del site.objects.content[folding]
    site.objects.content[segments[0]], site.objects.content[segments[1]] = (
        site.objects.content[segments[1]],
        site.objects.content[segments[0]],
    )
    _settle(site, _mending(site))
    assert folding not in site.objects.content
    assert _condition(site) == "1-2"
    assert "list of the segments 1 to 2 is damaged" in " ".join(site.said)


def test_a_damaged_list_of_older_segments_comes_from_a_copy(site: Site, folding: str) -> None:
    """One of its segments is damaged as well."""
    copy = Objects()
    copy.content = dict(site.objects.content)
    first = min(each for each in site.objects.content if each.endswith(".hxseg"))
    site.objects.content[folding] = site.objects.content[folding][:-1]
    site.objects.content[first] = b""
    _settle(site, _mending(site))
    assert _condition(site) == "1-2"
    _settle(site, _mending(site, ("copy", lambda: copy)))
    assert site.objects.content[folding] == copy.content[folding]
    assert site.objects.content[first] == copy.content[first]
    assert _condition(site) == ""
