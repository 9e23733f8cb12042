"""Nothing that a device keeps secret, and nothing that anybody has written, is in a support bundle."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.keys.vault_key_file import read_vault_keys
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

MARK = "planted-7fa1c6"
"""Stands in everything that people, peers and files say."""


def _bundle(gateway: Gateway, path: Path, *words: str) -> dict[str, Any]:
    gateway.ok("support-bundle", str(path), *words)
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        return {
            Path(each.name).stem: json.load(archive.extractfile(each) or pytest.fail(each.name)) for each in archive
        }


def _disguises(secret: bytes) -> Iterator[str]:
    """Yield how a secret could show: as it is, as hex, as base64 from any offset."""
    yield secret.decode("latin-1")
    yield secret.hex()
    for offset in range(3):
        yield base64.b64encode(secret[offset : offset + (len(secret) - offset) // 3 * 3]).decode()


def _holds(text: str, secret: bytes) -> bool:
    return any(
        each and each in text for window in range(len(secret) - 11) for each in _disguises(secret[window : window + 12])
    )


def test_the_search_finds_what_it_should() -> None:
    secret = bytes(range(200, 232))
    for disguise in (secret.hex(), base64.b64encode(b"x" + secret).decode(), secret.decode("latin-1")):
        assert _holds(f"before {disguise} after", secret)
    assert not _holds("nothing", secret)


@pytest.mark.broker
def test_secrets_planted_everywhere_stay_out(tmp_path: Path, new_gateway: Callable[[str], Gateway]) -> None:
    one, two = new_gateway(f"one-{MARK}"), new_gateway(f"two-{MARK}")
    one.ok("group", "create", "--capability", "collector")
    one.start("collect", "--no-sensors")
    one.invite(two)
    two.ok("message", "send", "--text", f"body {MARK}")
    two.ok("publish", feed=json.dumps({"n": MARK, "vs": MARK}))
    two.start("run", "--no-sensors")
    wait_until(lambda: two.queued() == 0, "all is delivered")
    one.end()
    two.ok("message", "send", "--text", f"waits {MARK}")
    two.end()
    one.ok("config", "set", "vault.location", str(one.state / "vault"))
    one.ok("config", "set", "relay.password_file", "relay.password")
    (one.state / f"{MARK}.txt").write_text(MARK)
    (one.state / "notes").write_text(MARK)
    (one.state / "conf.d").mkdir()
    (one.state / "conf.d" / f"{MARK}.toml").write_text(f"# {MARK}\nlabel = '{MARK}'\n")
    password = two.relay_password.encode()

    for gateway in (one, two):
        parts = _bundle(gateway, tmp_path / f"{gateway.name[:3]}.tar.gz")
        assert set(parts) == {"about", "check", "files", "settings", "status", "metrics"}
        assert not [name for name, part in parts.items() if "error" in part]
        text = json.dumps(parts, ensure_ascii=False)
        assert MARK not in text
        assert str(tmp_path) not in text
        assert "127.0.0.1" not in text
        for secret_file in ("identity.key", "relay.password"):
            path = gateway.state / secret_file
            if path.exists():
                assert not _holds(text, path.read_bytes()), secret_file
        if gateway is one:  # the words of the file are no secret
            keys = read_vault_keys(one.state / "vault.key")
            for secret in (keys.newest.key, keys.reader_secret or b""):
                assert len(secret) == 32
                assert not _holds(text, secret)
                assert not _holds(text, secret.hex().encode())
        assert not _holds(text, password)
        for public in (gateway.author, gateway.noise_public):
            assert public[:8] not in text
    assert parts["status"]["outbox"]["messages"] == 1
    assert parts["settings"]["settings"]["relay.url"] == "set"
    assert parts["metrics"]["covey_published_readings"] == 1


@pytest.mark.parametrize("name", ["config.toml", "identity.key", "state.sqlite", "relay.password"])
def test_a_file_of_nothing_but_a_secret(tmp_path: Path, name: str) -> None:
    """However wrong a file is, what stands in it is not repeated; the bundle is made all the same."""
    gateway = Gateway(tmp_path, "alone")
    for each in (gateway.state / name, gateway.state / f"{name}.copy"):
        if each.exists():
            each.write_text(f"{MARK} = {MARK}\n[{MARK}]\n", encoding="utf-8")
            each.chmod(0o600)
    parts = _bundle(gateway, tmp_path / "x.tar.gz", "--offline")
    assert MARK not in json.dumps(parts)
    assert parts["about"]["covey"]
    if name != "relay.password":
        assert "error" in [each["level"] for each in parts["check"]]


def test_mistakes(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, "alone")
    assert "must end in .tar.gz" in gateway.fails("support-bundle", str(tmp_path / "x.zip"), code=2)
    (tmp_path / "x.tar.gz").touch()
    assert "exists already" in gateway.fails("support-bundle", str(tmp_path / "x.tar.gz"), code=2)
    assert "cannot write" in gateway.fails("support-bundle", "/nowhere/x.tar.gz", "--offline", code=1)
