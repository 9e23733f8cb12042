"""`covey.core.link.shares`: whatever some parties use, each other one has its share."""

from __future__ import annotations

import random

import pytest

from covey.core.link.shares import has_room, share_of


@pytest.mark.parametrize("seed", range(20))
def test_whatever_others_use_every_party_has_its_share(seed: int) -> None:
    chance = random.Random(seed)
    parties, room = chance.randint(1, 9), chance.randint(40, 400)
    held = [0] * parties

    def add(party: int, more: int) -> bool:
        fits = has_room(room, parties, held[party], more, lambda share: sum(max(0, each - share) for each in held))
        held[party] += more if fits else 0
        return fits

    greedy = chance.sample(range(parties), chance.randint(0, parties - 1))
    for _ in range(500):
        add(chance.choice(greedy or [0]), chance.randint(1, 9))
    for party in set(range(parties)) - {*greedy, *([] if greedy else [0])}:
        for _ in range(share_of(room, parties)):
            assert add(party, 1)
    assert sum(held) <= room


def test_one_party_alone_has_all_of_it() -> None:
    assert has_room(10, 1, 9, 1, lambda share: 9 - share)
    assert not has_room(10, 1, 10, 1, lambda share: 10 - share)
