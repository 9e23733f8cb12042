"""`covey.adapters.keys.seals`: a key file that only a machine or a token opens, with real ones in software."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.adapters.keys import systemd_seal
from covey.adapters.keys.identity_file import bound_file, how_kept, plain_file, read_seed
from covey.adapters.keys.key_file import copy_of
from covey.adapters.keys.seals import best_seal
from covey.adapters.state_folder import StateFolder
from covey.app.device.creating import KeyProtection, keep_key
from covey.core.wire import cbor
from covey.errors import ConfigurationError, CoveyError, StorageError, TransientError
from tests.key_keepers import PIN, SoftwareToken, SoftwareTpm, holds, need_systemd_creds

pytestmark = [pytest.mark.processes, pytest.mark.slow]

_SEED = bytes(range(32))
_WHERE = Path("identity.key")


def _nobody() -> bytearray:
    raise AssertionError("a person was asked")


@pytest.fixture
def tpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoftwareTpm]:
    """A TPM, whose power is cut at the end."""
    made = SoftwareTpm(tmp_path / "tpm", monkeypatch)
    yield made
    made.cut_power()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SoftwareToken:
    """Return a token."""
    return SoftwareToken(tmp_path / "token", monkeypatch)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of systemd's encrypted credentials, and nothing held."""
    need_systemd_creds()
    monkeypatch.setattr(systemd_seal, "STORE", tmp_path / "store")
    monkeypatch.setattr(systemd_seal, "_HELD", {})
    return tmp_path / "store"


def test_a_tpm_opens_what_it_sealed_after_any_number_of_blackouts(tpm: SoftwareTpm) -> None:
    raw = bound_file(_SEED, "tpm", None, _nobody)
    assert _SEED not in raw
    assert how_kept(raw) == ("tpm", "sealed by this machine's TPM")
    for _ in range(5):  # a TPM counts them as guesses, where a key is not exempt
        assert read_seed(raw, _WHERE, _nobody).reveal() == _SEED
        tpm.cut_power()
        tpm.plug_in()


def test_another_tpm_and_a_cleared_one_open_nothing(tpm: SoftwareTpm) -> None:
    raw = bound_file(_SEED, "tpm", None, _nobody)
    tpm.clear()
    with pytest.raises(TransientError, match="TPM does not open") as caught:
        read_seed(raw, _WHERE, _nobody)
    assert "covey hub adopt" in caught.value.hint


def test_without_a_tpm_the_error_says_so(tpm: SoftwareTpm, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bound_file(_SEED, "tpm", None, _nobody)
    tpm.cut_power()
    with pytest.raises(TransientError, match="TPM"):
        read_seed(raw, _WHERE, _nobody)
    monkeypatch.delenv("TPM2TOOLS_TCTI")
    with pytest.raises(TransientError, match="sealed by a TPM, and this machine has no TPM"):
        read_seed(raw, _WHERE, _nobody)
    with pytest.raises(ConfigurationError, match="no TPM"):
        bound_file(_SEED, "tpm", None, _nobody)


@pytest.mark.parametrize("field", [1, 2, 3, 4])
def test_a_changed_field_opens_nothing(tpm: SoftwareTpm, field: int) -> None:
    content = cbor.decode(bound_file(_SEED, "tpm", None, _nobody), 4096)
    content[field] = "systemd" if field == 1 else content[field][:-1] + bytes([content[field][-1] ^ 1])
    with pytest.raises((ConfigurationError, TransientError)):
        read_seed(cbor.encode(content), _WHERE, _nobody)


def test_a_seal_that_this_covey_does_not_know_is_a_newer_ones(tpm: SoftwareTpm) -> None:
    content = cbor.decode(bound_file(_SEED, "tpm", None, _nobody), 4096)
    content[1] = "moon"
    with pytest.raises(ConfigurationError, match="newer Covey"):
        read_seed(cbor.encode(content), _WHERE, _nobody)


def test_a_token_opens_what_it_sealed_with_its_pin(token: SoftwareToken) -> None:
    raw = bound_file(_SEED, "token", token.module, lambda: bytearray(PIN, "ascii"))
    assert _SEED not in raw
    asked: list[bytearray] = []

    def pin(text: str = PIN) -> bytearray:
        asked.append(bytearray(text, "ascii"))
        return asked[-1]

    assert read_seed(raw, _WHERE, pin).reveal() == _SEED
    with pytest.raises(ConfigurationError, match="PIN is wrong"):
        read_seed(raw, _WHERE, lambda: pin("1111"))
    assert len(asked) == 2, "a token that is asked again and again locks itself"
    assert not any(any(each) for each in asked), "each was wiped"
    token.unplug()
    with pytest.raises(TransientError, match="not plugged in"):
        read_seed(raw, _WHERE, pin)
    token.plug_in()
    assert read_seed(raw, _WHERE, pin).reveal() == _SEED


def test_a_token_without_a_key_pair_and_a_missing_module_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SoftwareToken(tmp_path / "other", monkeypatch, label="mail")
    with pytest.raises(ConfigurationError, match="no RSA key pair labelled covey") as caught:
        bound_file(_SEED, "token", other.module, lambda: bytearray(PIN, "ascii"))
    assert "pkcs11-tool" in caught.value.hint
    with pytest.raises(ConfigurationError, match="module"):
        bound_file(_SEED, "token", None, lambda: bytearray(PIN, "ascii"))
    with pytest.raises(TransientError):
        bound_file(_SEED, "token", tmp_path / "no.so", lambda: bytearray(PIN, "ascii"))


def test_systemd_with_the_hosts_key_alone_claims_nothing(store: Path) -> None:
    raw = bound_file(_SEED, "systemd", None, _nobody)
    assert read_seed(raw, _WHERE, _nobody).reveal() == _SEED
    assert "a thief of all disks has the key" in how_kept(raw)[1]
    assert best_seal() == "", "it does not protect a stolen card: nobody has to choose it unasked"
    assert [path.name for path in store.iterdir()] == ["covey.seal"]


def test_systemd_with_a_tpm(store: Path, tpm: SoftwareTpm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPM2TOOLS_TCTI")  # what this machine has no programs for
    assert best_seal() == "", "nobody has to find a credential in /etc for a device of their own"
    systemd_seal.prepare_if_bound()  # as root does for the packaged agent
    assert best_seal() == "systemd"
    raw = bound_file(_SEED, "systemd", None, _nobody)
    assert how_kept(raw) == ("systemd", "sealed by systemd with this machine's TPM")
    tpm.cut_power()
    tpm.plug_in()
    monkeypatch.setattr(systemd_seal, "_HELD", {})
    assert read_seed(raw, _WHERE, _nobody).reveal() == _SEED
    tpm.clear()
    monkeypatch.setattr(systemd_seal, "_HELD", {})
    with pytest.raises(TransientError, match="systemd-creds does not open") as caught:
        read_seed(raw, _WHERE, _nobody)
    assert "covey hub adopt" in caught.value.hint
    assert best_seal() == ""
    systemd_seal.prepare_if_bound()  # as root does for a new device on this machine
    assert best_seal() == "systemd"
    assert read_seed(bound_file(_SEED, "systemd", None, _nobody), _WHERE, _nobody).reveal() == _SEED


def test_a_unit_gets_the_key_as_a_credential_without_being_root(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = bound_file(_SEED, "systemd", None, _nobody)
    key = systemd_seal._decrypted().reveal()
    monkeypatch.setattr(systemd_seal, "_HELD", {})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError, match="only for root and for units") as caught:
        read_seed(raw, _WHERE, _nobody)
    assert "sudo" in caught.value.hint
    handed_over = tmp_path / "credentials"
    handed_over.mkdir()
    (handed_over / "covey.seal").write_bytes(key)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(handed_over))
    assert read_seed(raw, _WHERE, _nobody).reveal() == _SEED


def test_a_missing_credential_is_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bound_file(_SEED, "systemd", None, _nobody)
    systemd_seal.forget()
    monkeypatch.setattr(systemd_seal, "_HELD", {})
    with pytest.raises(TransientError, match="is missing"):
        read_seed(raw, _WHERE, _nobody)


@pytest.fixture
def device(tmp_path: Path) -> StateFolder:
    """Return a device whose key is in the clear."""
    folder = StateFolder.at(tmp_path / "state")
    folder.create({}).wipe()
    return folder


@pytest.mark.parametrize("seal", ["tpm", "systemd", "token", "passphrase"])
def test_a_key_moves_into_each_seal_and_out_again(
    seal: str,
    device: StateFolder,
    tpm: SoftwareTpm,
    token: SoftwareToken,
    store: Path,
) -> None:
    from dataclasses import replace

    before = device.identity()
    seed = before.signing_seed
    assert set(holds(device.path, seed)) == {"identity.key", "identity.key.copy"}
    kept = KeyProtection(seal, token.module, token.pin_file)
    assert keep_key(device, kept)[0] == seal
    assert holds(device.path, seed) == [], "nothing of it is left in any file"
    device = replace(device, passphrase_file=token.pin_file)
    assert device.identity().signing_public == before.signing_public
    copy_of(device.path / "identity.key").replace(device.path / "identity.key")
    assert device.identity().signing_public == before.signing_public, "the copy is sealed, too"
    assert keep_key(device, KeyProtection("none"))[0] == "none"
    assert device.identity().keys == before.keys


def test_a_blackout_between_the_two_files_leaves_a_device_and_the_next_start_repairs_the_copy(
    device: StateFolder, tpm: SoftwareTpm, monkeypatch: pytest.MonkeyPatch
) -> None:
    from covey.adapters.keys import key_file

    before = device.identity()
    write = key_file.write_secret

    def cut(path: Path, content: bytes | bytearray) -> None:
        if path.suffix == ".copy":
            raise StorageError("the power is gone")
        write(path, content)

    with monkeypatch.context() as power:
        power.setattr(key_file, "write_secret", cut)
        with pytest.raises(StorageError):
            keep_key(device, KeyProtection("tpm"))
    assert holds(device.path, before.signing_seed) == ["identity.key.copy"]
    assert device.identity().keys == before.keys
    assert holds(device.path, before.signing_seed) == []


def test_a_damaged_sealed_file_is_restored_from_its_copy(device: StateFolder, tpm: SoftwareTpm) -> None:
    keep_key(device, KeyProtection("tpm"))
    path = device.path / "identity.key"
    whole = path.read_bytes()
    public = device.identity().signing_public
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert device.identity().signing_public == public
        assert path.read_bytes() == whole


@pytest.mark.parametrize("seal", ["tpm", "token"])
def test_what_cannot_be_sealed_stays_as_it_is(seal: str, device: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPM2TOOLS_TCTI", raising=False)
    raw = (device.path / "identity.key").read_bytes()
    with pytest.raises(CoveyError):
        keep_key(device, KeyProtection(seal))
    assert (device.path / "identity.key").read_bytes() == raw


def test_the_best_is_a_tpm_and_without_one_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_tpm: Callable[[], SoftwareTpm]
) -> None:
    monkeypatch.delenv("TPM2TOOLS_TCTI", raising=False)
    assert how_kept(KeyProtection().file(_SEED)) == how_kept(plain_file(_SEED))
    make_tpm()
    assert how_kept(KeyProtection().file(_SEED))[0] == "tpm"


def test_a_tpm_that_refuses_leaves_a_new_device_in_the_clear_and_an_old_key_as_it_is(
    device: StateFolder, tpm: SoftwareTpm, capfd: pytest.CaptureFixture[str]
) -> None:
    keep_key(device, KeyProtection("tpm"))
    sealed = (device.path / "identity.key").read_bytes()
    tpm.take_ownership()
    assert how_kept(KeyProtection().file(_SEED))[0] == "none"
    assert "this device's key stays in the clear: this machine's TPM does not" in capfd.readouterr().err
    with pytest.raises(TransientError):
        keep_key(device, KeyProtection("best"))
    assert (device.path / "identity.key").read_bytes() == sealed


def test_without_a_tpm_the_best_never_opens_what_a_passphrase_keeps(
    device: StateFolder, token: SoftwareToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TPM2TOOLS_TCTI", raising=False)
    keep_key(device, KeyProtection("passphrase", secret_file=token.pin_file))
    with pytest.raises(ConfigurationError, match="no TPM that can keep the key"):
        keep_key(device, KeyProtection())
    assert device.how_seed_is_kept()[0] == "passphrase"


@pytest.fixture
def make_tpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], SoftwareTpm]]:
    """A function that plugs in a TPM, whose power is cut at the end."""
    made: list[SoftwareTpm] = []

    def make() -> SoftwareTpm:
        made.append(SoftwareTpm(tmp_path / "tpm", monkeypatch))
        return made[-1]

    yield make
    for each in made:
        each.cut_power()
