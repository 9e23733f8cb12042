"""`covey.app.telemetry.restored_vault`: a vault restored alone lacks nothing in secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import node_id
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.landing import RESTORED_CONDITION
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.core.wire.message import Loss, LossReason, MessageType, read_message
from covey.errors import StorageError
from tests.fleet import carry
from tests.vault_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _settle(site: Site) -> None:
    """Let acknowledgements, what is sent again, and losses come and be landed."""
    for _ in range(8):
        site.ann.wait(400)
        site.gate.wait(400)
        carry(site.ann, site.gate)
        site.land()


def _losses(site: Site) -> list[Loss]:
    messages = [read_message(raw) for raw in site.records() if record_kind(raw) is RecordKind.MESSAGE]
    return [Loss.from_wire(each.body) for each in messages if each.type is MessageType.LOSS]


def _backed_up(site: Site) -> dict[str, bytes]:
    site.send(b"kept")
    site.land()
    site.ann.wait(400)
    carry(site.ann, site.gate)
    return dict(site.objects.content)


def _lose(site: Site, *bodies: bytes) -> None:
    """Land each in a segment of its own, acknowledged."""
    for body in bodies:
        site.send(body)
        site.land()
        site.ann.wait(400)
        carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def test_members_send_again_what_a_restored_vault_lacks(site: Site) -> None:
    old = _backed_up(site)
    _lose(site, b"two", b"three", b"four")
    site.objects.content = old
    site.start()
    assert "it lacks 3 messages" in site.said[-1]
    _settle(site)
    assert sorted(site.landed_telemetry()) == [b"four", b"kept", b"three", b"two"]
    assert _losses(site) == []
    assert site.gate.store.conditions.values()[RESTORED_CONDITION][0] == "3"


def test_messages_senders_no_longer_have_become_signed_losses(site: Site) -> None:
    old = _backed_up(site)
    _lose(site, b"two", b"three")
    with site.ann.store.transaction():
        site.ann.store.database.run("DELETE FROM acknowledged_message")
    site.objects.content = old
    site.start()
    _settle(site)
    assert set(site.landed_telemetry()) == {b"kept"}
    (loss,) = _losses(site)
    assert loss.reason is LossReason.RECIPIENT_LOST
    assert sum(last - first + 1 for first, last in loss.numbers) == 2


def test_a_reader_of_lost_segments_continues(site: Site) -> None:
    old = _backed_up(site)
    _lose(site, b"two", b"three")
    node, reader = node_id(site.gate.key).hex(), VaultReader(site.objects, site.ring)
    before = reader.manifest(node, Floor())
    assert not isinstance(before, Trouble)
    site.objects.content = old
    assert isinstance(reader.manifest(node, Floor()), Trouble)
    site.start()
    _settle(site)
    after = reader.manifest(node, Floor(before.manifest_seq, before.last_number, before.hash.hex()))
    assert not isinstance(after, Trouble)
    assert after.last_number > before.last_number
    entries = reader.entries(node, after, before.last_number + 1, after.last_number)
    assert not isinstance(entries, Trouble)
    assert sum(each.records for each in entries) >= 2


def test_a_crash_on_the_way_changes_nothing_more(site: Site) -> None:
    old = _backed_up(site)
    _lose(site, b"two")
    site.objects.content = old
    site.start()
    site.start()
    site.objects.refuses = (".hxman",)
    _settle(site)
    site.objects.refuses = ()
    site.start()
    _settle(site)
    assert set(site.landed_telemetry()) == {b"kept", b"two"}
    assert site.gate.store.conditions.values()[RESTORED_CONDITION][0] == "1"


def test_an_older_copy_under_a_running_collector_is_refused_until_it_restarts(site: Site) -> None:
    old = _backed_up(site)
    _lose(site, b"two")
    site.objects.content = old
    site.send(b"three")
    site.land()
    assert "restart" in str(site.said[-1]) or "older copy" in str(site.said[-1])
    site.start()
    _settle(site)
    assert set(site.landed_telemetry()) == {b"kept", b"two", b"three"}


def test_a_vault_that_lost_everything_is_another_folder(site: Site) -> None:
    _backed_up(site)
    site.objects.content = {}
    with pytest.raises(StorageError, match="lost"):
        site.start()
