"""`./dev rot`: some damages of each kind of files, and that a damage always is one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.rot.damages import HOW, damaged
from bench.rot.kinds import KINDS
from tests.proof import begins
from tests.waiting import GUARD_S

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", [each for each in HOW if each != "gone"])
def test_a_damaged_content_is_another_one(how: str) -> None:
    for seed in range(50):
        chance = random.Random(seed)
        content = bytes(chance.randrange(3)) + chance.randbytes(chance.randrange(1, 4_000))
        assert damaged(content, how, chance) != content


def test_the_shares_of_all_kinds_are_the_whole() -> None:
    assert sum(share for share, _ in KINDS.values()) == 100


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.processes
def test_no_damage_goes_wrong(tmp_path: Path) -> None:
    begins()
    pytest.importorskip("deltalake", reason="the tables extra is not installed")
    command = [
        sys.executable,
        "-m",
        "bench.rot",
        "--count",
        "600",
        "--seed",
        "7000",
        "--folder",
        str(tmp_path),
        "--json",
    ]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=2 * GUARD_S, check=False)
    found = json.loads(done.stdout)
    assert (found["cases"], found["wrong"], done.returncode) == (600, [], 0)
    assert {each.split()[0] for each in found["kinds"]} >= {"state", "keys", "doors", "segment", "table"}
