"""Each benchmark runs, with small sizes, and prints figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from tests.waiting import GUARD_S

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_ROOT = Path(__file__).parents[2]
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
_BY_HAND = {"ingest", "size", "board", "crypto_instructions"}
"""What takes minutes even when small, installs (see test_size.py), or needs an emulator or a cross compiler."""


@pytest.mark.parametrize("name", sorted({*BENCHES} - _BY_HAND))
def test_a_benchmark_runs(name: str) -> None:
    command = [sys.executable, "-m", "bench", "--smoke", name]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    assert len(_FIGURE.findall(done.stdout)) >= 2, done.stdout
    assert not re.search(r"\b(nan|inf)\b", done.stdout), done.stdout
