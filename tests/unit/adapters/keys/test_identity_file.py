"""`covey.adapters.keys.identity_file`: the key in the clear and under a passphrase."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.keys.identity_file import (
    noise_file,
    plain_file,
    read_noise,
    read_seed,
    sealed_file,
)
from covey.adapters.keys.passphrase import find_passphrase
from covey.core.crypto import NoiseKey
from covey.core.wire import cbor
from covey.errors import ConfigurationError
from covey.limits.key import ARGON2_MEMORY_KIB_MAX, ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MIN, RETIRED_NOISE_KEYS
from tests.vectors import load, vectors
from tests.vectors.makers.cast import ALICE, BOB, identity

_WHERE = Path("identity.key")
_SEED = ALICE.signing_seed


def _sealed(passphrase: bytes = b"correct horse") -> bytes:
    return sealed_file(_SEED, passphrase, ARGON2_PASSES_MIN, ARGON2_MEMORY_KIB_MIN)


def _never() -> bytearray:
    raise AssertionError("nobody asked for a passphrase")


def _horse(which: str) -> bytearray:
    return bytearray(f"{which} horse", "ascii")


def test_in_the_clear_no_passphrase_is_asked_for() -> None:  # accepts: 002.25
    assert read_seed(plain_file(_SEED), _WHERE, _never).reveal() == _SEED


def test_under_a_passphrase() -> None:  # accepts: 002.25
    raw = _sealed()
    assert _SEED not in raw
    assert read_seed(raw, _WHERE, lambda: _horse("correct")).reveal() == _SEED
    assert _sealed() != raw, "salt and nonce are drawn each time"
    assert len(cbor.decode(raw, 512)[1]) == 16


@pytest.mark.parametrize("vector", vectors("key_files", "identities"))
def test_identity_vectors(vector: dict[str, Any]) -> None:  # accepts: 002.25
    def passphrase() -> bytearray:
        return bytearray(load("key_files")["passphrase"], "ascii")

    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        assert read_seed(raw, _WHERE, passphrase).reveal() == _SEED
        return
    with pytest.raises(ConfigurationError) as caught:
        read_seed(raw, _WHERE, passphrase)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", vectors("key_files", "noise_keys"))
def test_noise_key_vectors(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        secrets = [(key.secret.reveal(), key.retired_at_us) for key in read_noise(raw, _WHERE, _SEED)]
        assert secrets == [(identity(name).noise_secret, retired_at_us) for name, retired_at_us in vector["secrets"]]
        return
    with pytest.raises(ConfigurationError) as caught:
        read_noise(raw, _WHERE, _SEED)
    assert caught.value.code == vector["code"]


def test_the_passphrase_is_wiped_after_use() -> None:  # accepts: 002.38
    typed = _horse("correct")
    read_seed(_sealed(), _WHERE, lambda: typed)
    assert typed == bytes(len(typed))


def test_noise_keys_open_under_the_signing_seed_alone() -> None:
    keys = (NoiseKey.of(BOB.noise_secret), NoiseKey.of(ALICE.noise_secret, 17))
    raw = noise_file(_SEED, keys)
    assert BOB.noise_secret not in raw
    assert read_noise(raw, _WHERE, _SEED) == keys
    for damaged in (raw[:-1], raw[:20] + bytes([raw[20] ^ 1]) + raw[21:], b""):
        with pytest.raises(ConfigurationError, match="damaged"):
            read_noise(damaged, _WHERE, _SEED)
    with pytest.raises(ConfigurationError, match="damaged"):
        read_noise(raw, _WHERE, BOB.signing_seed)
    most = keys[:1] + keys[1:] * RETIRED_NOISE_KEYS
    assert len(read_noise(noise_file(_SEED, most), _WHERE, _SEED)) == RETIRED_NOISE_KEYS + 1
    for wrong in ((), most + keys[1:]):
        with pytest.raises(ConfigurationError):
            read_noise(noise_file(_SEED, wrong), _WHERE, _SEED)


@pytest.mark.parametrize("field", [1, 4, 5])
def test_a_wrong_passphrase_and_a_changed_file_look_alike(field: int) -> None:
    raw = _sealed()
    with pytest.raises(ConfigurationError, match="wrong, or the key file is damaged"):
        read_seed(raw, _WHERE, lambda: _horse("wrong"))
    content = cbor.decode(raw, 512)
    content[field] = bytes([content[field][0] ^ 1]) + content[field][1:]
    with pytest.raises(ConfigurationError, match="wrong, or the key file is damaged"):
        read_seed(cbor.encode(content), _WHERE, lambda: _horse("correct"))


@pytest.mark.parametrize(("passes", "memory"), [(1, 65536), (2, 1024), (17, 65536), (3, ARGON2_MEMORY_KIB_MAX + 1)])
def test_work_below_the_floor_or_above_the_ceiling_is_refused_unasked(
    passes: int, memory: int
) -> None:  # accepts: 002.36
    content = cbor.decode(_sealed(), 512)
    content[2:4] = [passes, memory]
    with pytest.raises(ConfigurationError, match="outside the allowed range"):
        read_seed(cbor.encode(content), _WHERE, _never)


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
    with pytest.raises(ConfigurationError, match="there is no terminal"):
        find_passphrase(None)


@pytest.mark.processes
def test_the_passphrase_is_not_echoed() -> None:  # accepts: 002.27
    master, slave = pty.openpty()
    script = "from covey.adapters.keys.passphrase import find_passphrase as f; print(len(f(None, twice=True)))"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        shown = b""
        for prompt in (b"passphrase: ", b"repeat: "):
            while prompt not in shown:
                shown += os.read(master, 1_000)
            os.write(master, b"correct horse\n")
        assert process.stdout is not None
        assert process.stdout.read() == b"13\n"
    with suppress(OSError):  # the other end is closed
        shown += os.read(master, 1_000)
    os.close(master)
    assert b"horse" not in shown
