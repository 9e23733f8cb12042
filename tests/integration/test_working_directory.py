"""Nothing that Covey starts imports from the working directory, where files of other people lie."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report_tables import AWAKE, write_tables
from tests.trapped_folder import TrappedFolder
from tests.waiting import GUARD_S

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    "words",
    [
        ("report", "TABLES", "--json"),
        ("delete", "TABLES", "--author", AWAKE, "--no-note", "--json"),
    ],
    ids=lambda words: words[0],
)
def test_the_ingest_imports_nothing_from_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    tables, folder = write_tables(tmp_path / "tables"), TrappedFolder(tmp_path / "here")
    words = tuple(str(tables) if word == "TABLES" else word for word in words)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "covey.cli.main", "tables", *words],
        cwd=folder.path,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert not folder.executed
    assert done.returncode == 0, done.stderr
    assert "--json" not in words or json.loads(done.stdout)
