"""`agent.adapters.identity_file`: the key in the clear and under a passphrase."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.adapters.identity_file import find_passphrase, plain_file, read_identity, sealed_file
from agent.core import wire
from agent.core.limits import ARGON2_MEMORY_KIB_MAX, ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MIN
from agent.errors import ConfigurationError
from tests.vectors.makers.cast import ALICE

_WHERE = Path("identity.key")


def _sealed(passphrase: bytes = b"correct horse") -> bytes:
    return sealed_file(ALICE, passphrase, ARGON2_PASSES_MIN, ARGON2_MEMORY_KIB_MIN)


def _never() -> bytes:
    raise AssertionError("nobody asked for a passphrase")


def test_in_the_clear_no_passphrase_is_asked_for() -> None:  # accepts: 002.25
    assert read_identity(plain_file(ALICE), _WHERE, _never) == ALICE


def test_under_a_passphrase() -> None:  # accepts: 002.25
    raw = _sealed()
    assert ALICE.signing_seed not in raw
    assert ALICE.noise_secret not in raw
    assert read_identity(raw, _WHERE, lambda: b"correct horse") == ALICE
    assert _sealed() != raw, "salt and nonce are drawn each time"


@pytest.mark.parametrize("field", [1, 4, 5])
def test_a_wrong_passphrase_and_a_changed_file_look_alike(field: int) -> None:
    raw = _sealed()
    with pytest.raises(ConfigurationError, match="wrong, or the key file is damaged"):
        read_identity(raw, _WHERE, lambda: b"wrong horse")
    content = wire.decode(raw, 512)
    content[field] = bytes([content[field][0] ^ 1]) + content[field][1:]
    with pytest.raises(ConfigurationError, match="wrong, or the key file is damaged"):
        read_identity(wire.encode(content), _WHERE, lambda: b"correct horse")


@pytest.mark.parametrize(("passes", "memory"), [(1, 65536), (2, 1024), (17, 65536), (3, ARGON2_MEMORY_KIB_MAX + 1)])
def test_work_below_the_floor_or_above_the_ceiling_is_refused_unasked(passes: int, memory: int) -> None:
    content = wire.decode(_sealed(), 512)
    content[2:4] = [passes, memory]
    with pytest.raises(ConfigurationError, match="less or more than allowed"):
        read_identity(wire.encode(content), _WHERE, _never)


def test_the_passphrase_comes_from_systemd_or_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "passphrase"
    file.write_text("from a file\n")
    file.chmod(0o600)
    assert find_passphrase(file) == b"from a file"
    (tmp_path / "covey.passphrase").write_text("from systemd\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert find_passphrase(file) == b"from systemd"
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="open to other users"):
        find_passphrase(file)
    with pytest.raises(ConfigurationError, match="nobody is here"):
        find_passphrase(None)
