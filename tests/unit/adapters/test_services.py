"""Who does what root asks for: the user whose state it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from covey.adapters import services

pytestmark = pytest.mark.processes

_SHOWN = """
import os, sys
from pathlib import Path
from covey.adapters.services import ended_as_owner
ended = ended_as_owner(Path(sys.argv[1]))
print(os.geteuid(), os.getgroups() if ended is None else ended, flush=True)
os._exit(7 if ended is None else ended)
"""
_NOBODY = 65_534


def _run(folder: Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-c", _SHOWN, str(folder)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_root_runs_commands_as_the_states_owner(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, _NOBODY, _NOBODY)
        assert _run(tmp_path) == (7, [f"{_NOBODY} [{_NOBODY}]", "0 7"])
    else:  # nobody else can become another user
        assert _run(tmp_path)[0] == 7


def test_an_own_folder_and_one_that_is_not_there_yet_need_nobody_else(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "new"):
        code, lines = _run(folder)
        assert (code, len(lines)) == (7, 1)


def test_a_hint_names_the_unit_that_runs_the_agent_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units, enabled = tmp_path / "units", tmp_path / "covey-collector.service"
    monkeypatch.setattr(services, "_MANAGER", tmp_path)
    monkeypatch.setattr(services, "_UNITS", (units,))
    monkeypatch.setattr(services, "_COLLECTOR_ENABLED", enabled)
    words = ("covey", "systemctl start {unit}", "covey run")
    assert services.hint_for(*words) == "covey run"
    units.mkdir()
    for unit in ("covey", "covey-collector"):
        (units / f"{unit}.service").touch()
    assert services.hint_for(*words) == "systemctl start covey"
    enabled.symlink_to(units / enabled.name)
    assert services.hint_for(*words) == "systemctl start covey-collector"
