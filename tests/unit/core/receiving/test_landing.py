"""`covey.core.receiving.landing` and what is around it: what a message of each of many devices costs a collector."""

from __future__ import annotations

from pathlib import Path

from covey.core.ids import GroupId
from tests.fleet import Device, found, settled

_DEVICES = 10


def test_a_message_of_another_device_costs_few_statements(tmp_path: Path) -> None:
    hub = Device("hub", tmp_path, collects=True)
    authors = [Device(f"author-{place}", tmp_path) for place in range(_DEVICES)]
    group_id = GroupId(settled(hub, *authors))
    said = []
    for _ in range(2):
        for each in authors:
            each.blob(group_id, b"content")
        said.append([out.envelope for each in authors for out in each.sends() if out.recipient == hub.key])
    statements: list[str] = []
    with hub.store.transaction():
        for envelope in said[0]:
            hub.node.receive_envelope(envelope, hub.now)
    hub.store.connection.set_trace_callback(statements.append)
    with hub.store.transaction():
        for envelope in said[1]:
            hub.node.receive_envelope(envelope, hub.now)
    taken = len(statements)
    hub.wait(1)
    assert len({out.recipient for out in hub.sends()}) == _DEVICES
    hub.store.connection.set_trace_callback(None)
    for each in authors:
        each.stop()
    hub.stop()
    assert taken <= 8 * _DEVICES, statements
    assert len(statements) - taken <= 2 * _DEVICES, statements[taken:]


def test_a_collector_has_no_part_in_the_groups_of_another(tmp_path: Path) -> None:
    hubs = [Device(f"hub-{place}", tmp_path, collects=True) for place in range(2)]
    authors = [Device(f"author-{place}", tmp_path) for place in range(2)]
    for hub, author in zip(hubs, authors, strict=True):
        author.batch(found(author, hub), b"content")
    for author, hub, other in zip(authors, hubs, reversed(hubs), strict=True):
        assert {out.recipient for out in author.sends()} == {hub.key}
        assert other.node.groups.address(author.key) is None
    for each in (*hubs, *authors):
        each.stop()
