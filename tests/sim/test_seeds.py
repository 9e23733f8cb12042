"""The production code in seeded worlds: whatever fails, what was accepted comes once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import parameters
from tests.sim import __main__ as command
from tests.sim.many import run_seeds
from tests.sim.world import run_seed

ROOT = Path(__file__).parents[2]

_ONCE_BROKEN = (
    *(3_003_620, 6_001_199, 7_200_098, 7_200_982, 7_205_584),
    *(7_309_974, 7_311_484, 7_316_545, 7_501_685, 7_519_716),
    *(7_506_170, 7_809_031, 7_811_007, 7_824_800, 7_825_931, 7_831_690),
    *(7_802_089, 7_804_715, 7_809_654, 7_839_661, 20_001_026, 20_008_099),
    *(22_000_767, 31_000_556, 31_000_706, 33_100_271, 34_006_228, 34_020_892),
    *(50_001_857, 81_003_535, 730_000_436, 730_002_867, 730_028_919, 730_029_712, 730_044_818),
    *(81_002_047, 940_002_917, 940_014_929, 991_000_357, 810_005_169),
)
"""Rare chains of votes and faults: who was removed, or let in by what is void, was never told; what only members take
waited for who was out; what waited in another group went with a departure; a destruction crossed the ban of its issuer;
what a lost life had let go of was freed; a removed device made more heads than one may follow; a
destruction overtook what let a device in again; what was asked of a member waited for it when it was out; an epoch's
secret was lost with who drew it; a restored device owed word of its removal to who had removed it; a clock that was set
ended a destruction that nobody had heard of; the notice of a removal kept a number that another life had used; who
had lost with its state that it was let in again was listed, and took nothing; who was removed owed word to those who
were out with it; a lost life had let a device in again, and nobody else heard of it; more rivals had one version than
an answer carries; a request to join went too seldom for its invite; what a lost life had told as lost was freed;
who was removed amid a conflict answered nothing of whom it took to be out; a request for manifests waited for who was
removed; votes were enough since who had cast one was let in again, and nobody issued what they had decided;
who alone knew of its removal was not asked, as something waited for it; a leaving was known before its word;
who was restored to before its removal was behind nobody, and was not told; a removal that takes two rivals was
not asked for, as something waited for who held the other one; a destruction that names nobody who was just let
in again overtook the manifests that do; of more rivals than one may have each held those that came first;
who was restored lacked the link key under which it was told of its other life, each time;
an acknowledgement from before a gap lacked what came after it, which went again and landed twice;
link keys failed on a crowded relay as fast as they were given, and crowded it further.
The gate once misjudged 730000436, 940002917, 940014929, 991000357 and 81002047: the slowest relay held so many that
what is published there went beyond the bound, until it had drained; who had obeyed a destruction was told in vain
what had been lost; what the end of a world lets devices say was in no bound; whoever destroys a group owed a device
that was out of it word of that, and was away; a relay that had lost the inviter's subscription kept a request to
join from it until the invite had expired."""


def test_every_accepted_message_arrives_once(seeds: range, pytestconfig: pytest.Config) -> None:
    outcomes = list(run_seeds(seeds, jobs=1 if pytestconfig.getoption("--quick") else None))
    assert not [str(outcome) for outcome in outcomes if outcome.violation is not None]
    assert any(outcome.accepted for outcome in outcomes)


@pytest.mark.parametrize("seed", parameters(_ONCE_BROKEN, quick=1, plain=6))
def test_a_world_that_was_broken_is_whole(seed: int) -> None:
    run_seed(seed)


@pytest.mark.processes
def test_a_seed_replays_exactly() -> None:
    """In processes that order sets differently, too: 1328 begins links with several devices at once."""

    def reported(hash_seed: int) -> str:
        command = [sys.executable, "-m", "tests.sim", "1328"]
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert reported(1) == reported(3)


@pytest.mark.parametrize("options", [(), ("--metered",), ("--planned",)], ids=["plain", "metered", "planned"])
def test_drawn_seeds_are_others_each_time_and_told(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = list[int]()

    def note(first: int, _count: int, _jobs: int | None, kind: str) -> int:
        assert kind == "".join(options).removeprefix("--")
        drawn.append(first)
        return 0

    monkeypatch.setattr(command, "_run", note)
    monkeypatch.setattr(sys, "argv", ["sim", *options, "--draw", "5"])
    for _ in range(2):
        assert command.main() == 0
    assert drawn[0] != drawn[1]
    replayed = [" ".join(("./dev sim", *options, f"{first} --count 5")) for first in drawn]
    assert capsys.readouterr().out.splitlines() == [f"drawn: {each}" for each in replayed]
