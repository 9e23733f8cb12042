"""Spark on a machine without Java: the runtime that the extra `jre` brings, for a session and for its children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covey_ingest.spark.java import java_home
from tests.spark.fleet import Author, Collector
from tests.waiting import GUARD_S

pytestmark = pytest.mark.spark


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the machine's Java off the PATH, and leave all other programs there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in filter(None, os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("no_java")
def test_java_is_found_at_the_given_place(monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home()
    assert home is not None
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home
    version = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, check=True).stderr
    assert 'version "21' in version


@pytest.mark.usefixtures("no_java")
def test_the_ingest_runs_without_a_java_of_the_machine(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    collector.land(Author(collector, 1).measure(4), Author(collector, 2).measure(3))
    words = [str(collector.vault), str(tmp_path / "tables"), "--key-file", str(collector.key_file), "--available-now"]
    done = subprocess.run(
        [sys.executable, "-m", "covey_ingest", *words], capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert done.returncode == 0, done.stderr
    from tests.tables.ingesting import audited

    assert sorted(audited(tmp_path / "tables", collector).values()) == [3, 4]
