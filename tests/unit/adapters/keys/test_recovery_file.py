"""A hub's recovery file: what it holds comes back whole, and nothing else opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.keys.recovery_file import (
    PinnedOperator,
    Recovery,
    is_recovered,
    open_recovery,
    recovery_passphrase,
)
from covey.adapters.sqlite.file.groups_copy import CopiedGroup
from covey.core.ids import DeviceKey, GroupId
from covey.core.pairing.pending import Replacement
from covey.core.wire import cbor
from covey.errors import ConfigurationError

_WORDS = b"correct horse"


def _typed(words: bytes = _WORDS) -> Callable[[], bytearray]:
    return lambda: bytearray(words)


def _recovery() -> Recovery:
    group = GroupId(bytes([1]) * 32)
    operator = PinnedOperator(group, DeviceKey(bytes([2]) * 32), DeviceKey(bytes([3]) * 32), 7)
    copied = CopiedGroup(group, (b"manifest",), ((bytes([4]) * 32, bytes([5]) * 32),))
    files = {"identity.key": b"seed", "broker/ca/ca.key": b"authority", "conf.d/doors.toml": b""}
    replaced = Replacement(bytes([6]) * 32, group, DeviceKey(bytes([7]) * 32), "pump"), DeviceKey(bytes([8]) * 32)
    return Recovery(1_790_000_000_000_000, files, (copied,), (operator,), group, (replaced,))


@pytest.mark.slow
def test_what_was_saved_is_read() -> None:
    assert open_recovery(_recovery().sealed(_WORDS), _typed()) == _recovery()


@pytest.mark.slow
def test_a_device_without_operators_and_own_devices_is_read() -> None:
    plain = Recovery(1, {}, ())
    assert open_recovery(plain.sealed(_WORDS), _typed()) == plain


@pytest.mark.slow
def test_another_passphrase_or_any_changed_byte_is_refused() -> None:
    raw = _recovery().sealed(_WORDS)
    with pytest.raises(ConfigurationError, match="passphrase is wrong"):
        open_recovery(raw, _typed(b"correct horses"))
    for place in (*range(0, 60, 7), len(raw) // 2, len(raw) - 1):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(ConfigurationError):
            open_recovery(bytes(changed), _typed())
    for cut in (0, 1, 40, len(raw) - 1):
        with pytest.raises(ConfigurationError):
            open_recovery(raw[:cut], _typed())


def test_a_file_that_asks_for_too_much_or_too_little_work_is_refused() -> None:
    version, salt, _, memory_kib, nonce, sealed = cbor.decode(_recovery().sealed(_WORDS), 1 << 20)
    for costs in ((1, memory_kib), (1_000_000, memory_kib), (3, 1), (3, 1 << 30)):
        raw = cbor.encode([version, salt, *costs, nonce, sealed])
        with pytest.raises(ConfigurationError, match="outside the allowed range"):
            open_recovery(raw, _typed())


def test_a_newer_file_is_named_so() -> None:
    _, *rest = cbor.decode(_recovery().sealed(_WORDS), 1 << 20)
    with pytest.raises(ConfigurationError, match="newer Covey"):
        open_recovery(cbor.encode([2, *rest]), _typed())


@pytest.mark.slow
def test_no_file_outside_the_listed_places_is_written() -> None:
    for name in (
        "identity.key",
        "cloud.secret",
        "relays/a-8883/password",
        "broker/passwords.turns",
        "broker/ca/ca.crt",
    ):
        assert is_recovered(name), name
    for name in ("state.sqlite", "/etc/passwd", "../identity.key", "relays/../../x/y", "vault/1", "broker/ca/x/y", ""):
        assert not is_recovered(name), name
    hostile = Recovery(1, {"../../etc/cron.d/x": b"x"}, ())
    with pytest.raises(ConfigurationError, match="damaged"):
        open_recovery(hostile.sealed(_WORDS), _typed())


def test_a_passphrase_comes_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.touch(0o600)
    file.write_text("correct horse\n")
    assert recovery_passphrase(str(file)) == bytearray(_WORDS)
    file.write_text("\n")
    with pytest.raises(ConfigurationError, match="1 to"):
        recovery_passphrase(str(file))
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="open to other users"):
        recovery_passphrase(str(file))
