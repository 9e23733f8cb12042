"""`covey.app.orders.action_service`: root does what root's own files allow, for the agent alone.

That it then runs, and how: tests/integration/test_debian_package.py, by a real systemd.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from covey.adapters.action_socket import ActionAnswer, ActionOutcome, to_request
from covey.app.orders.action_service import serve
from covey.app.orders.owners_actions import allowed_commands
from covey.core.actions.results import ARGUMENTS, NOT_ALLOWED, NOT_DEFINED, NOT_SECRET, NOT_STARTED
from covey.errors import ConfigurationError, LocalError, RemoteError

_LIST = '[operations]\ncommands = ["note", "gone", "restart-agent", "support-bundle"]\n'
_NOTE = 'summary = "note"\nargv = ["/nowhere/note", "{line}"]\n[arguments.line]\ntext = 5\ncharacters = "abc"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    for each in (folder, folder / "conf.d", folder / "operations.d"):
        each.mkdir(mode=0o755)
    _write(folder / "conf.d" / "commands.toml", _LIST)
    _write(folder / "operations.d" / "note.toml", _NOTE)
    return folder


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _served(folder: Path, packet: bytes, owner: int | None = None) -> bytes:
    """Ask, and return the answer; the socket is given to `owner`, else to whoever asks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        path = folder.parent / "socket"
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        listening.listen()
        if owner is not None:
            os.chown(path, owner, -1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(str(path))
            asking.send(packet)
            channel, _ = listening.accept()
            runtime = folder.parent / "run"
            runtime.mkdir(exist_ok=True)
            (runtime / "output").unlink(missing_ok=True)
            with channel:
                serve(channel, folder, runtime, "test.service", lambda _level, _line: None)
            return asking.recv(1 << 17)


def _refuses_secret(folder: Path, name: str) -> str:
    packet = to_request("note", {}, {name: "abc"})
    return ActionAnswer.from_wire(_served(folder, packet)).code


def test_roots_definition_puts_no_secret_on_a_command_line(folder: Path) -> None:
    assert _refuses_secret(folder, "line") == NOT_SECRET
    _write(folder / "operations.d" / "note.toml", _NOTE.replace(', "{line}"]', ']\ninput = "{line}"'))
    assert _refuses_secret(folder, "line") == NOT_STARTED
    assert _refuses_secret(folder, "word") == ARGUMENTS


def _refused(folder: Path, action: str, **arguments: str) -> tuple[str, str]:
    answer = ActionAnswer.from_wire(_served(folder, to_request(action, arguments, {})))
    assert answer.outcome is ActionOutcome.REFUSED
    return answer.code, answer.why


def test_roots_own_list_and_definitions_count(folder: Path) -> None:
    assert _refused(folder, "reboot")[0] == NOT_ALLOWED
    assert _refused(folder, "../note")[0] == NOT_ALLOWED
    assert _refused(folder, "gone")[0] == NOT_DEFINED
    assert _refused(folder, "note", line="abcd; ")[0] == ARGUMENTS
    assert _refused(folder, "note", line="abc") == (NOT_STARTED, "/nowhere/note is not an executable program")
    _write(folder / "operations.d" / "note.toml", "argv = 1")
    assert _refused(folder, "note", line="abc")[0] == NOT_DEFINED


@pytest.mark.parametrize("action", ["restart-agent", "support-bundle"])
def test_root_refuses_the_agents_own_actions(folder: Path, action: str) -> None:
    assert _refused(folder, action) == (NOT_STARTED, f"only the agent itself does {action}")


@pytest.mark.parametrize("name", ["", "conf.d", "conf.d/commands.toml"])
def test_a_definition_that_others_may_write_allows_nothing(folder: Path, name: str) -> None:
    path = folder / name
    path.chmod(path.stat().st_mode | 0o020)
    code, why = _refused(folder, "note", line="abc")
    assert code == NOT_ALLOWED
    assert "other users may write" in why


def test_a_definition_that_others_may_write_is_none(folder: Path) -> None:
    (folder / "operations.d" / "note.toml").chmod(0o666)
    assert _refused(folder, "note", line="abc")[0] == NOT_DEFINED


def test_the_last_list_counts_and_none_allows_nothing(folder: Path) -> None:
    _write(folder / "config.toml", '[operations]\ncommands = ["reboot"]\n')
    assert "note" in allowed_commands(folder)
    (folder / "conf.d" / "commands.toml").unlink()
    assert allowed_commands(folder) == ("reboot",)
    (folder / "config.toml").unlink()
    assert allowed_commands(folder) == ()
    _write(folder / "config.toml", "[operations]\ncommands = 1\n")
    with pytest.raises(ConfigurationError):
        allowed_commands(folder)


def test_another_user_is_not_answered(folder: Path) -> None:
    if os.geteuid() == 0:
        with pytest.raises(LocalError, match="user 0 is not the agent's user"):
            _served(folder, to_request("note", {"line": "abc"}, {}), owner=1)


def test_an_invalid_request_is_not_answered(folder: Path) -> None:
    with pytest.raises(RemoteError):
        _served(folder, b"/bin/sh")
