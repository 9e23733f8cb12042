"""Completion in the shells that are here, and the manual: both say what the commands say."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from covey.cli.command_tree import commands
from covey.config.settings import settings
from covey.core.ids import key_text
from tests.command import covey
from tests.fleet import identity
from tests.integration.gateway import Gateway
from tests.warm_covey import COVEY

_OF_STATE = {"--state", "--config", "--passphrase-file", "--help"}
_OF_LEAVE = {*_OF_STATE, "--yes", "--with", "--delete-now", "--group", "--json"}

_BASH = """
source "$1"; shift
compopt() { :; } # exists only while bash completes
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_covey
printf '%s\\n' "${COMPREPLY[@]}"
"""


def _script(shell: str, folder: Path) -> Path:
    path = folder / shell
    path.write_text(covey("completion", shell).stdout, encoding="utf-8")
    return path


def _complete(script: Path, *words: str) -> set[str]:
    done = subprocess.run(
        ["bash", "-c", _BASH, "bash", script, *words], capture_output=True, text=True, check=True, cwd=script.parent
    )
    assert done.stderr == ""
    return {line for line in done.stdout.splitlines() if line}


def test_bash_completes(tmp_path: Path) -> None:
    script = _script("bash", tmp_path)
    (tmp_path / "blob one").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "vault").mkdir()
    assert _complete(script, "covey", "conf") == {"config", "conformance"}
    assert {each.name for each in commands()} <= _complete(script, "covey", "")
    assert _complete(script, "covey", "config", "get", "outb") == {"outbox.maximum_bytes"}
    assert set(settings()) <= _complete(script, "covey", "config", "set", "")
    assert _complete(script, "covey", "publish", "--format", "senml-") == {"senml-cbor"}
    assert _complete(script, "covey", "message", "send", "blob") == {"blob one"}
    assert _complete(script, "covey", "check", "--off") == {"--offline"}
    assert _complete(script, "covey", "status", "--state", "") == {"folder", "vault"}
    assert _complete(script, "covey", "init", "--label", "") == set()
    assert _complete(script, "covey", "tables", "rep") == {"report"}
    assert _complete(script, "covey", "tables", "report", "--s") == {"--since"}
    assert _complete(script, "covey", "tables", "run", "--en") == {"--engine"}
    assert _complete(script, "covey", "tables", "run", "vau") == {"vault"}
    assert _complete(script, "covey", "tables", "run", "vault", "--available") == {"--available-now"}
    assert _complete(script, "covey", "group", "le") == {"leave"}
    assert _complete(script, "covey", "group", "leave", "--") == _OF_LEAVE
    assert _complete(script, "covey", "group", "--state", "folder", "leave", "--") == _OF_LEAVE
    assert _complete(script, "covey", "group", "create", "--mode", "p") == {"public"}
    assert _complete(script, "covey", "group", "--") == {*_OF_STATE, "--json"}
    assert _complete(script, "covey", "message", "l") == {"list", "ls"}
    assert _complete(script, "covey", "message", "ls", "--l") == {"--limit"}
    assert _complete(script, "covey", "message", "import", "blob") == {"blob one"}
    assert _complete(script, "covey", "relay", "set", "--ca") == {"--ca-file"}
    assert _complete(script, "covey", "relay", "add", "--key", "blob") == {"blob one"}
    assert _complete(script, "covey", "group", "add", "--label", "") == set()
    assert _complete(script, "covey", "tables", "run", "--verify", "n") == {"none"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """An operator's device, whose shell finds its state and `covey`; another member's label is a shell's command."""
    kim = Gateway(tmp_path, "kim")
    kim.ok("config", "set", "label", "kim")
    kim.ok("group", "create")
    other = identity("other")
    keys = [key_text("sign", other.signing_public), key_text("noise", other.noise_public)]
    kim.ok("group", "add", *keys, "--label", "$(touch hacked)")
    kim.ok("group", "create")
    kim.ok("config", "set", "operations.operators", kim.json("key", "show")["signing_key"])
    program = tmp_path / "bin" / "covey"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(map(str, COVEY))} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COVEY_STATE", str(kim.state))
    return kim


_BROUGHT = {"journal", "read-now", "reboot", "restart-agent", "support-bundle"}


def test_bash_completes_what_is_in_the_state(here: Gateway, tmp_path: Path) -> None:
    script = _script("bash", tmp_path)
    groups = {each["group_id"][:8] for each in here.json("status")["groups"]}
    first = min(groups)
    order = here.json("setting", "set", "app.mode", "eco", "--group", first)["id"][:8]
    assert _complete(script, "covey", "order", "run", "") >= _BROUGHT
    assert _complete(script, "covey", "order", "run", "journal", "--arg", "") == {"file=", "group=", "lines=", "unit="}
    assert _complete(script, "covey", "order", "run", "journal", "--for", "") == {"all", "kim"}
    assert _complete(script, "covey", "order", "show", order[:2]) == {order}
    assert order in _complete(script, "covey", "order", "approve", "")
    assert _complete(script, "covey", "order", "--group", "") == groups
    assert _complete(script, "covey", "group", "remove-operator", "k") == {"kim"}
    assert not (tmp_path / "hacked").exists()


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
def test_fish_completes_what_is_in_the_state(here: Gateway, tmp_path: Path) -> None:
    script = _script("fish", tmp_path)
    line = f"source {script}; complete -C 'covey order run re'; complete -C 'covey group remove-operator k'"
    done = subprocess.run(["fish", "--no-config", "-c", line], capture_output=True, text=True, check=True)
    words = {each.split("\t")[0] for each in done.stdout.splitlines()}
    assert words == {"read-now", "reboot", "restart-agent", "kim"}
    assert here.state.exists()


def test_missing_things_are_not_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_STATE", str(tmp_path / "none"))
    for kind, words in {"orders": "", "groups": "", "devices": "", "whom": "all\n"}.items():
        done = covey("completion", "--words", kind)
        assert (done.code, done.stdout, done.stderr) == (0, words, "")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_script_has_no_mistakes(tmp_path: Path, shell: str) -> None:
    script = _script(shell, tmp_path)
    text = script.read_text(encoding="utf-8")
    for command in commands():
        assert command.name in text
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read it")
    assert subprocess.run([shell, "-n", script], check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
def test_fish_completes(tmp_path: Path) -> None:
    script = _script("fish", tmp_path)

    def ask(line: str) -> set[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return {each.split("\t")[0] for each in done.stdout.splitlines()}

    assert ask("covey config get out") == {"outbox.maximum_bytes"}
    assert ask("covey publish --format senml-") == {"senml-cbor"}
    assert ask("covey group le") == {"leave"}
    assert ask("covey group --state folder leave --y") == {"--yes"}
    assert ask("covey group leave --m") == set()
    assert ask("covey group create --mode p") == {"public"}
    assert ask("covey message l") == {"list", "ls"}
    assert ask("covey relay set --ca") == {"--ca-file"}
    assert ask("covey tables report --s") == {"--since"}
    assert ask("covey tables run vault --available") == {"--available-now"}


def test_a_shell_that_is_not_known() -> None:
    done = subprocess.run([*COVEY, "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_the_manual_has_everything_and_is_read_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "covey.cli.manual"], capture_output=True, text=True, check=True)
    words = done.stdout.replace("\\-", "-")
    for command in commands():
        assert f".SS {command.name}\n" in words
        for option in command.options:
            assert all(f"\\fB{name}" in words for name in option.names if name not in {"-h", "--help"})
    for key in settings():
        assert f"\\fB{key}\\fR" in words
    if shutil.which("groff") is None:
        pytest.skip("no groff here to read it")
    page = tmp_path / "covey.1"
    page.write_text(done.stdout, encoding="utf-8")
    shown = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-rLL=120n", page], capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""


def test_help_is_quick() -> None:
    """The best of some runs, in processor time (a busy machine does not matter): no more than a person notices."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    taken = []
    for _ in range(7):
        before = spent()
        subprocess.run([*COVEY, "--help"], capture_output=True, check=True)
        taken.append(spent() - before)
    assert min(taken) <= 0.15
