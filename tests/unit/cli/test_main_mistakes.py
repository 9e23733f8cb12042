"""What a tired person gets wrong before any broker is asked: one `error:` line, a hint, the right exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from covey.adapters.keys.key_file import copy_of
from tests.command import Here, covey


@pytest.fixture
def alone(tmp_path: Path) -> Here:
    """A device that has no broker."""
    return Here(tmp_path, "alone")


def test_no_device_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SYSTEM_STATE", "SYSTEM_RUN"):  # this machine may have one
        monkeypatch.setattr(f"covey.adapters.state_path.{name}", tmp_path / "nowhere")
    ended = covey("status", "--state", str(tmp_path))
    assert ended.code == 78
    assert ended.stderr.startswith("error: there is no device in ")
    assert "hint: run 'covey init' or 'covey join' first" in ended.stderr


def test_a_file_that_is_not_there(alone: Here) -> None:
    assert "/nowhere/at/all cannot be read" in alone.fails("publish", "/nowhere/at/all", code=2)
    assert "/nowhere/at/all cannot be read" in alone.fails("message", "send", "/nowhere/at/all", code=2)


def test_a_second_init_keeps_the_first_identity(alone: Here) -> None:
    key = (alone.state / "identity.key").read_bytes()
    assert "already holds a device" in alone.fails("init", code=1)
    assert (alone.state / "identity.key").read_bytes() == key


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[relay]\nurll = 'mqtt://x'\n", "did you mean 'relay.url'?"),
        ("lable = 'x'\n", "did you mean 'label'?"),
        ("[telemetry]\nbatch_readings = 'many'\n", "must be a whole number"),
        ("[telemetry]\nbatch_seconds = 0\n", "must be between 0.1 and 86400"),
        ("[outbox]\nmaximum_bytes = 1\n", "must be at least 1048576"),
        ("not toml at all", "Expected '='"),
        ("relay = 3\n", "[relay] must be a section"),
    ],
)
def test_a_wrong_configuration(alone: Here, text: str, complaint: str) -> None:
    (alone.state / "config.toml").write_text(text)
    assert complaint in alone.fails("status", code=78)
    assert complaint in alone.fails("run", code=78)


def test_keys_that_others_may_read(alone: Here) -> None:
    # accepts: 002.26
    key = alone.state / "identity.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert alone.state.stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    assert "chmod 600" in alone.fails("status", code=78)


def test_a_damaged_identity(alone: Here) -> None:
    key = alone.state / "identity.key"
    for each in (key, copy_of(key)):
        each.write_bytes(each.read_bytes()[:-1])
    assert "is damaged" in alone.fails("status", code=78)


@pytest.mark.slow
def test_no_group_no_relay(alone: Here) -> None:
    assert "this device is in no group" in alone.fails("message", "send", "--text", "x", code=1)
    assert "covey relay serve" in alone.fails("run", code=78)
    assert "in no group: covey join CODE, or covey group create" in alone.ok("fleet")
    assert "this device is in no group" in alone.fails("invite", code=1)
    (alone.state / "empty").touch()
    code = ("4711-apple-river-zoo-k3xq7bm2@127.0.0.1:1", "--enrolment-password-file", str(alone.state / "empty"))
    assert "empty is empty" in alone.fails("join", *code, code=2)  # before anybody is asked
    missing = alone.fails("join", *code[:1], "--ca-file", str(alone.state / "missing"), code=78)
    assert "not a readable PEM file" in missing
    assert "looking for" not in missing
    assert "this is not a Covey invite" in alone.fails("join", "covey:nonsense", code=1)
    assert "this invite is damaged" in alone.fails("join", "covey://join/1/AAAA", code=1)
    assert "mqtt" in alone.fails("relay", "set", "http://x", code=78)


def test_a_package_that_is_not_there(alone: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "covey.adapters.broker.fleet_ca", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    said = alone.fails("broker", "init", "--ca", str(tmp_path / "ca"), code=78)
    assert said.splitlines() == [
        "error: a certificate authority needs the Python package cryptography",
        "hint: sudo apt install python3-cryptography; in a virtual environment: python -m pip install cryptography",
    ]
