"""Whole devices whose key a TPM keeps: they start by themselves, and a stolen card is not the device."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from broker_conf.mosquitto.broker import find_mosquitto, free_port
from covey.adapters.broker import fleet_ca, mosquitto_passwords
from covey.adapters.broker.fleet_ca import FleetCa
from covey.adapters.broker.mosquitto_passwords import shared_enrolment
from covey.adapters.broker.served_folder import ServedFolder
from covey.adapters.keys import systemd_seal
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import Device, open_device
from tests.integration.gateway import Gateway
from tests.key_keepers import SoftwareTpm, holds
from tests.waiting import GUARD_S, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def tpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoftwareTpm]:
    """The machine's TPM."""
    made = SoftwareTpm(tmp_path / "tpm", monkeypatch)
    yield made
    made.cut_power()


@pytest.fixture
def gateway(tpm: SoftwareTpm, tmp_path: Path) -> Iterator[Gateway]:
    """A device made on a machine with a TPM; nobody chose anything."""
    before = (systemd_seal.STORE / systemd_seal.NAME).exists()
    made = Gateway(tmp_path, "gateway")
    yield made
    made.kill()
    assert (systemd_seal.STORE / systemd_seal.NAME).exists() == before, "nothing of this machine's was touched"


def _seed(state: Path) -> bytes:
    return StateFolder.at(state).identity().signing_seed


def _identity_line(gateway: Gateway) -> str:
    return next(line for line in gateway.covey("check").stdout.splitlines() if "identity" in line)


def _start(gateway: Gateway) -> None:
    """Start the agent, with no command meanwhile: without a kernel nothing divides the TPM."""
    awake = gateway.state / "wake.pipe"
    awake.unlink(missing_ok=True)
    gateway.start("run", "--no-sensors")
    wait_until(awake.exists, "the agent runs")


def test_an_agent_starts_by_itself_and_after_a_blackout(gateway: Gateway, tpm: SoftwareTpm) -> None:
    assert "sealed by this machine's TPM" in _identity_line(gateway)
    gateway.ok("group", "create")
    for _ in range(2):
        _start(gateway)
        gateway.ok("key", "rotate")
        gateway.end(signal.SIGKILL)
        tpm.cut_power()
        tpm.plug_in()
    assert holds(gateway.state, _seed(gateway.state)) == []


def test_a_stolen_card_is_not_the_device(gateway: Gateway, tpm: SoftwareTpm, tmp_path: Path) -> None:
    gateway.ok("group", "create")
    gateway.ok("history", "post", "a note")
    seed = _seed(gateway.state)
    stolen = tmp_path / "stolen"
    shutil.copytree(gateway.state, stolen)
    tpm.clear()  # the thief's machine has another one
    assert holds(stolen, seed) == []
    for words in (("status",), ("key", "seal", "none"), ("run",), ("hub", "save", "-")):
        said = gateway.fails(*words, "--state", str(stolen), code=1)
        assert "this machine's TPM does not open or seal the key" in said
        assert "covey hub adopt" in said
    assert {"error", "identity"} <= set(gateway.covey("check", "--state", str(stolen)).stdout.split())


def _secrets(device: Device) -> dict[str, bytes]:
    """Return the secrets that a device knows, by what they are."""
    identity, store = device.node.identity, device.store
    found = {"signing seed": identity.signing_seed}
    found |= {f"noise key {each.public.hex()}": each.secret.reveal() for each in identity.noise.keys}
    for group in device.node.groups.joined():
        secret = store.groups.secret(group.group_id, group.epoch_id)
        assert secret is not None
        found[f"group secret {group.group_id.hex()}"] = secret
    if device.folder.has_vault_key:
        keys = device.folder.vault_key(identity).read()
        found |= {f"vault key {each.key_id.hex()}": each.key for each in keys.keys}
        found["vault reader"] = keys.reader_secret or b"not drawn yet"
    return found


def _made_ca(folder: Path) -> Path:
    """Make a fleet CA, which is not on the stolen card."""
    return FleetCa.create(folder / "ca").folder


def _codes(device: Device) -> dict[str, bytes]:
    """Return the secrets of open pairing codes."""
    pairings = device.store.pairings.all()
    codes = {f"code {each.number}": (each.code or "").encode() for each in pairings}
    return codes | {f"invite {each.number}": each.secret for each in pairings}


def test_a_stolen_card_holds_no_secret(gateway: Gateway, tpm: SoftwareTpm, tmp_path: Path) -> None:
    passwords = {"password 1": b"of the first relay", "password 2": b"of the second relay"}
    gateway.ok("relay", "set", "mqtt://localhost:9", "--password-file", "-", feed=passwords["password 1"])
    gateway.ok("relay", "add", "mqtt://localhost:10", "--password-file", "-", feed=passwords["password 2"])
    certificate = gateway.ok("broker", "enrol", gateway.author, "--ca", str(_made_ca(tmp_path)))
    gateway.ok("relay", "add", "mqtt://localhost:11", "--certificate", "-", feed=certificate)
    passwords["certificate"] = certificate.strip().splitlines()[1].encode()  # of its key
    groups = [gateway.json("group", "create")["group_id"] for _ in range(2)]
    gateway.ok("vault", "init")
    gateway.ok("vault", "rotate-key")
    _start(gateway)
    with open_device(StateFolder.at(gateway.state)) as device:
        secrets = _secrets(device) | passwords
        gateway.ok("group", "leave", "--group", groups[1], "--yes")  # leaves free pages
        gateway.start_beside("invite", "--group", groups[0])
        wait_until(lambda: _codes(device), "the code is there")
        secrets |= _codes(device)
    gateway.end(signal.SIGKILL)  # so the log of the database is not folded
    stolen = tmp_path / "stolen"
    shutil.copytree(gateway.state, stolen, ignore=shutil.ignore_patterns("wake.pipe"))
    assert (stolen / "state.sqlite-wal").stat().st_size > 0
    assert {what.split()[0] for what in secrets} == {
        *("signing", "noise", "group", "vault", "invite", "code", "password", "certificate")
    }
    tpm.clear()
    assert {what: holds(stolen, secret) for what, secret in secrets.items() if holds(stolen, secret)} == {}


def test_a_stolen_card_of_a_hub_makes_no_accounts_and_no_certificates(
    gateway: Gateway, tpm: SoftwareTpm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, environment = find_mosquitto()
    monkeypatch.setenv("PATH", f"{environment.get('PATH', os.defpath)}{os.pathsep}{program.parent}")
    if libraries := environment.get("LD_LIBRARY_PATH"):
        monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    gateway.ok("config", "unset", "relay.url")
    gateway.start("relay", "serve", "--port", str(free_port()))
    wait_until(lambda: "serving the relay" in gateway.log.read_text(), "the relay is served")
    account = gateway.ok("broker", "enrol", "ab" * 16).strip()
    storage_key, broker = StorageKey.of(StateFolder.at(gateway.state).identity()), gateway.state / "broker"
    passwords = broker / "passwords"
    authority = FleetCa.open(broker / "ca", storage_key)
    scalar = authority._key.private_numbers().private_value.to_bytes(32, "big")
    secrets = {"account": account.encode(), "authority": scalar}
    secrets["authority as text"] = fleet_ca._key_pem(authority._key).splitlines()[1]
    secrets["accounts"] = mosquitto_passwords._kept(passwords, "secret", storage_key)
    secrets["joiners"] = (shared_enrolment(passwords, storage_key) or "").encode()
    server = ServedFolder(broker).server_pem(storage_key)
    secrets["server as text"] = server.splitlines()[1]
    found_key = serialization.load_pem_private_key(server[: server.index(b"-----BEGIN CERT")], None)
    assert isinstance(found_key, ec.EllipticCurvePrivateKey)
    secrets["server"] = found_key.private_numbers().private_value.to_bytes(32, "big")
    assert all(len(each) >= 8 for each in secrets.values())
    gateway.end(signal.SIGKILL)
    tpm.clear()
    assert {what: found for what, secret in secrets.items() if (found := holds(gateway.state, secret))} == {}
    for words in (("broker", "enrol", "cd" * 16), ("broker", "renew"), ("relay", "serve")):
        assert "this machine's TPM does not open" in gateway.fails(*words, code=1)


def test_the_tables_of_a_hub_fill_by_themselves_and_those_of_a_stolen_card_do_not(
    gateway: Gateway, tpm: SoftwareTpm, tmp_path: Path
) -> None:
    gateway.ok("group", "create", "--capability", "collector")
    gateway.ok("vault", "init")
    vault, own = str(gateway.state / "vault"), gateway.state / "vault.key"

    def fill(tables: str, key_file: Path) -> str:
        words = ("run", vault, str(tmp_path / tables), "--key-file", str(key_file), "--available-now")
        done = subprocess.run(
            [sys.executable, "-m", "covey_ingest", *words], capture_output=True, text=True, timeout=GUARD_S, check=False
        )
        return done.stderr if done.returncode else f"{done.stdout}filled"

    assert fill("tables", own).endswith("filled")
    copy, stolen = tmp_path / "copy.key", tmp_path / "stolen"
    gateway.ok("vault", "export-key", str(copy))
    shutil.copytree(gateway.state, stolen, ignore=shutil.ignore_patterns("wake.pipe"))
    tpm.clear()
    assert "this machine's TPM does not open" in fill("other", stolen / "vault.key")
    assert fill("other", copy).endswith("filled")


def test_a_hub_moves_to_another_machine_by_its_recovery_file_alone(
    gateway: Gateway, tpm: SoftwareTpm, tmp_path: Path
) -> None:
    gateway.ok("group", "create", "--capability", "collector")
    vault = gateway.json("vault", "init")["vault_id"]
    before = gateway.json("key", "show")
    password = tmp_path / "passphrase"
    password.touch(0o600)
    password.write_text("correct horse battery staple\n")
    recovery = tmp_path / "hub.recovery"
    gateway.ok("hub", "save", str(recovery), "--password-file", str(password))
    assert _seed(gateway.state) not in recovery.read_bytes()
    tpm.clear()
    second = tmp_path / "second"
    gateway.ok("hub", "adopt", str(recovery), "--password-file", str(password), "--state", str(second))
    assert gateway.json("key", "seal", "--state", str(second))["seal"] == "tpm"
    assert gateway.json("key", "show", "--state", str(second))["signing_key"] == before["signing_key"]
    assert gateway.json("vault", "init", "--state", str(second))["vault_id"] == vault, "the same keys open its vault"
    assert holds(second, _seed(second)) == []


def test_a_key_moves_between_ways_by_commands(gateway: Gateway, tmp_path: Path) -> None:
    passphrase = tmp_path / "passphrase"
    passphrase.touch(0o600)
    passphrase.write_text("correct horse battery staple\n")
    public = gateway.json("key", "show")["signing_key"]
    assert gateway.json("key", "seal", "none")["seal"] == "none"
    assert "a thief of the disk has it" in gateway.ok("key", "seal")
    sealed = gateway.json("key", "seal", "passphrase", "--new-passphrase-file", str(passphrase))
    assert sealed["seal"] == "passphrase"
    assert "there is no terminal" in gateway.fails("status", code=78)
    assert gateway.json("key", "seal", "best", "--passphrase-file", str(passphrase))["seal"] == "tpm"
    assert gateway.json("key", "show")["signing_key"] == public
