"""How long a relay keeps what goes more than once (docs/protocol/core.md, section 7; `Node._kept_s`)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from covey.core.link.sealer import Outgoing
from covey.core.wire.message import MessageType
from covey.limits.heads import HEADS_CALM_US
from covey.limits.link import RESEND_KEPT_US, RETRY_US_MAX
from tests.fleet import Device, Make, carry, found

_KEPT_S = RESEND_KEPT_US // 1_000_000


@pytest.fixture
def ann(make: Make) -> Device:
    """A device with a message for another one, which is away."""
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    ann.compares_on_contact_only()
    ann.blob(group_id, b"hello")
    return ann


def copies(device: Device, count: int) -> list[tuple[float, Outgoing]]:
    """Return the next copies of a message, each with when it goes, in seconds."""
    found = list[tuple[float, Outgoing]]()
    for _ in range(100_000):
        found += [(device.now.monotonic_us / 1e6, each) for each in device.sends() if each.entry is not None]
        if len(found) >= count:
            return found[:count]
        device.wait(1)
    raise AssertionError(f"only {len(found)} copies")


def test_a_relay_keeps_the_first_copy_as_long_as_it_likes(ann: Device) -> None:
    [(_, first)] = copies(ann, 1)
    assert first.lifetime_s == 0


def test_a_relay_keeps_a_further_copy_for_ten_minutes_more_than_until_the_next(ann: Device) -> None:
    sent = copies(ann, 12)
    for (at_s, copy), (next_s, _) in pairwise(sent[1:]):
        assert next_s - at_s + _KEPT_S - 2 <= copy.lifetime_s <= next_s - at_s + _KEPT_S + 1
    assert sent[-1][1].lifetime_s <= RETRY_US_MAX * 2 / 1e6 + _KEPT_S, "few are at a relay at any time"


def test_between_windows_a_relay_keeps_a_copy_until_the_one_of_the_next_window(ann: Device) -> None:
    copies(ann, 1)
    ann.wait(60)
    next_s = 6 * 3_600
    ann.node.state.presence.next_copy_us = ann.now.monotonic_us + next_s * 1_000_000
    [(_, copy)] = copies(ann, 1)
    assert copy.lifetime_s == next_s + _KEPT_S


def test_a_relay_keeps_a_report_of_heads_until_the_next_one(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    carry(ann, ben)
    for _ in range(200):
        ann.wait(60)
        ann.maintain()
        said = [each for each in ann.sends() if each.kind is MessageType.HEADS]
        if said:
            break
    assert [each.lifetime_s for each in said] == [HEADS_CALM_US // 1_000_000 + _KEPT_S]
