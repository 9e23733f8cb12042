"""Each benchmark runs, with small sizes, and prints figures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from bench.boards import crypto_firmware, crypto_instructions
from demo.quick_spark import quick_spark
from tests import warm_covey
from tests.proof import begins
from tests.waiting import GUARD_S

_ROOT = Path(__file__).parents[2]
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
_NEEDS = {
    "board": "MicroPython for i386",
    "serial": "MicroPython for i386",
    "crypto_instructions": "a cross compiler",
    "page": "Chromium",
    "metered": "a C compiler, and root, for network namespaces",
}
_LACKING = 2
"""A benchmark's exit code where the machine lacks what it needs."""


@cache
def _quick_spark() -> dict[str, str]:
    return quick_spark()  # which asks each Java on this machine for its version


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(BENCHES))
def test_a_benchmark_runs(name: str) -> None:
    begins()
    command = [sys.executable, "-m", "bench", "--smoke", name]
    warm_covey.share()
    environment = os.environ | _quick_spark()
    done = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    if name in _NEEDS and done.returncode == _LACKING and "CI" not in os.environ:
        assert re.match(r"error: .+\nhint: .+\n", done.stderr, re.DOTALL), done.stderr
        pytest.skip(f"{name} needs {_NEEDS[name]}: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert len(_FIGURE.findall(done.stdout)) >= 2, done.stdout
    assert not re.search(r"\b(nan|inf)\b", done.stdout), done.stdout


@pytest.mark.parametrize(("away", "right"), [(0, True), (62, True), (-63, True), (125, False), (-125, False)])
def test_a_count_of_instructions_may_end_one_timer_step_away(
    monkeypatch: pytest.MonkeyPatch, away: int, right: bool
) -> None:
    lines = [f"{name} 1000063" for name in crypto_instructions.OPERATIONS]
    lines += ["verified True", "nothing 63", "loop-1000 9000", f"loop-3000 {27_000 + away}"]
    monkeypatch.setattr(crypto_firmware, "run", lambda _firmware, _statement: lines)
    if right:
        assert set(crypto_instructions.counts(_ROOT, "viper").values()) == {1.0}
    else:
        with pytest.raises(RuntimeError, match="2000 turns of a loop took"):
            crypto_instructions.counts(_ROOT, "viper")
