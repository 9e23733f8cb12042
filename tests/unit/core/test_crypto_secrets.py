"""Secrets: shown nowhere, wiped where CPython lets us."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import pkgutil
import re
from pathlib import Path

import pytest

import covey.adapters
import covey.core
from covey.adapters.state_folder import StateFolder
from covey.app.device.creating import KeyProtection
from covey.core import crypto
from covey.core.crypto import Identity, NoiseKey, Secret, argon2id, wipe
from covey.limits.key import ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MIN

_SEED, _NOISE = b"\xa5" * 32, b"\x5a" * 32
_SECRET_NAME = re.compile(r"(^|_)(secret|secrets|seed|passphrase|password)$")


def _dataclasses() -> list[type]:
    found: dict[str, type] = {}
    for package in (covey.core, covey.adapters):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if module.ispkg:
                continue
            try:
                loaded = importlib.import_module(module.name)
            except ModuleNotFoundError:  # an extra that is not installed here
                continue
            found |= {
                f"{each.__module__}.{each.__qualname__}": each
                for each in vars(loaded).values()
                if isinstance(each, type)
                and dataclasses.is_dataclass(each)
                and hasattr(each.__repr__, "__wrapped__")  # the generated one
            }
    return list(found.values())


def test_no_dataclass_shows_a_field_that_is_named_for_a_secret() -> None:  # accepts: 002.32
    shown = [
        f"{each.__qualname__}.{field.name}"
        for each in _dataclasses()
        for field in dataclasses.fields(each)
        if _SECRET_NAME.search(field.name) and field.repr and "Secret" not in str(field.type)
    ]
    assert shown == []


def test_a_secret_is_neither_shown_nor_copied() -> None:  # accepts: 002.32
    secret = Secret(_SEED)
    identity = Identity.with_noise(_SEED, (NoiseKey.of(_NOISE), NoiseKey.of(_SEED, 7)))
    for shown in (repr(secret), str(secret), f"{secret}", repr(identity), repr(identity.noise), str([secret])):
        for content in (_SEED, _NOISE):
            assert repr(content)[2:-1] not in shown
            assert content.hex() not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_wiped_secret_is_zeros() -> None:  # accepts: 002.38
    secret = Secret(_SEED)
    buffer = secret._content
    secret.wipe()
    assert secret.reveal() == bytes(32)
    assert buffer == bytes(32), "in place: nothing of it is left elsewhere"
    typed = bytearray(b"correct horse")
    wipe(typed)
    assert typed == bytes(13)


def test_an_identity_is_wiped_whole() -> None:  # accepts: 002.38
    identity = Identity.with_noise(_SEED, (NoiseKey.of(_NOISE), NoiseKey.of(_SEED, 7)))
    identity.wipe()
    assert identity.signing_secret == bytes(64)
    assert [key.secret.reveal() for key in identity.noise.keys] == [bytes(32)] * 2


@pytest.mark.slow
def test_a_derived_key_and_what_was_read_are_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # accepts: 002.38
    buffers: list[tuple[str, bytearray]] = []
    secrets: list[Secret] = []
    folder = StateFolder.at(tmp_path / "state", None)
    file = tmp_path / "passphrase"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    folder.create({}, KeyProtection("passphrase", secret_file=file).file)

    from covey.adapters.keys import key_file
    from covey.adapters.keys import passphrase as passphrase_module

    def reading(path: Path, maximum: int) -> bytearray:
        buffers.append((path.name, read_secret(path, maximum)))
        return buffers[-1][1]

    def deriving(typed: bytes | bytearray, salt: bytes, passes: int, memory_kib: int) -> Secret:
        secrets.append(argon2id(typed, salt, passes, memory_kib))
        return secrets[-1]

    read_secret = getattr(key_file, "read_secret")  # noqa: B009 - where it is used
    monkeypatch.setattr(passphrase_module, "read_secret", reading)
    monkeypatch.setattr(key_file, "read_secret", reading)
    monkeypatch.setattr(crypto, "argon2id", deriving)
    dataclasses.replace(folder, passphrase_file=file).identity()
    unsealed = {name: content for name, content in buffers if not name.startswith("noise.keys")}  # these are sealed
    assert set(unsealed) == {"identity.key", "identity.key.copy", "passphrase"}
    assert not any(any(content) for content in unsealed.values())
    assert [each.reveal() for each in secrets] == [bytes(32)]


def test_work_is_never_below_the_floor() -> None:  # accepts: 002.25, 002.36
    assert ARGON2_PASSES_MIN >= 2
    assert ARGON2_MEMORY_KIB_MIN >= 19 * 1024
