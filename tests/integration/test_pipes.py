"""How the `covey` command ends where nobody reads on, or nothing can be written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from covey.cli.main import READER_GONE
from tests.warm_covey import COVEY


def _nobody_reads() -> int:
    """Return the end of a pipe that nobody reads from any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("words", [["--help"], ["group", "--help"]])
def test_a_reader_that_has_gone(words: list[str]) -> None:
    writer = _nobody_reads()
    ended = subprocess.run([*COVEY, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (READER_GONE, "")


def test_a_reader_of_mistakes_that_has_gone() -> None:
    writer = _nobody_reads()
    ended = subprocess.run([*COVEY, "nonsense"], stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert ended.returncode == READER_GONE


def test_head() -> None:
    line = f"{' '.join(COVEY)} completion zsh | head -n 1"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("#compdef covey\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_the_output() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [*COVEY, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered
        )
    assert (ended.returncode, ended.stderr) == (1, "error: the output cannot be written: No space left on device\n")


def test_an_output_that_was_closed() -> None:
    ended = subprocess.run(["bash", "-c", f"{' '.join(COVEY)} completion bash >&-"], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
