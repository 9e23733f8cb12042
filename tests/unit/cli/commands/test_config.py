"""`covey config` as a person uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covey.adapters.configuration_files import ConfigurationFiles
from covey.adapters.state_folder import StateFolder
from covey.config.settings import settings
from tests.command import Here


@pytest.fixture
def alone(tmp_path: Path) -> Here:
    """A device that has no broker."""
    return Here(tmp_path, "alone")


def test_set_get_unset(alone: Here) -> None:
    assert alone.ok("config", "get", "telemetry.batch_seconds") == "60.0\n"
    alone.ok("config", "set", "telemetry.batch_seconds", "5")
    assert alone.ok("config", "get", "telemetry.batch_seconds") == "5.0\n"
    alone.ok("config", "unset", "telemetry.batch_seconds")
    shown = alone.json("config", "get", "telemetry.batch_seconds")
    assert (shown["value"], shown["origin"], shown["unit"]) == (60.0, "default", "s")
    assert (alone.state / "config.toml").stat().st_mode & 0o777 == 0o600


def test_list_documents_every_setting(alone: Here) -> None:
    text = alone.ok("config", "list")
    for about in settings().values():
        assert f"{about.key} = " in text
        assert about.meaning in text
    assert [each["key"] for each in alone.json("config", "list", "vault")] == [
        "vault.location",
        "vault.mirrors",
        "vault.segment_seconds",
    ]


def test_only_the_program_that_reads_a_changed_setting_must_restart(alone: Here) -> None:
    folder = StateFolder.at(alone.state)
    assert alone.covey("config", "set", "alerts.silent_minutes", "5").stderr == ""
    locks = [folder.locks.agent(), folder.locks.alerts()]
    try:
        for key, who in {"alerts.silent_minutes": "covey alert watch", "telemetry.batch_seconds": "the agent"}.items():
            assert alone.covey("config", "set", key, "6").stderr.startswith(f"restart {who}")
    finally:
        for each in locks:
            assert each is not None
            os.close(each)
    assert alone.covey("config", "set", "alerts.silent_minutes", "7").stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["set", "relay.urll", "mqtt://x"], 78, "did you mean 'relay.url'?"),
        (["set", "relay.url", "http://x"], 78, "must be mqtt://HOST or mqtts://HOST"),
        (["set", "relay.ca_file", "/nowhere"], 78, "not a readable PEM file"),
        (["set", "relay.client_key", "/nowhere"], 78, "/nowhere is not a file"),
        (["set", "broker.password_file", "nowhere"], 78, "nowhere is not a file"),
        (["set", "broker.ca_folder", "/nowhere"], 78, "/nowhere holds no fleet CA"),
        (["set", "alerts.webhook_token_file", "/nowhere"], 78, "/nowhere is missing"),
        (["set", "alerts.mail_password_file", "empty"], 78, "empty is empty"),
        (["set", "telemetry.group", "beef"], 78, "telemetry.group"),
        (["set", "alerts.webhook", "htp://x"], 78, "alerts.webhook must be a http:// or https:// address"),
        (["set", "alerts.mail_server", "mail.example.org"], 78, "must be a smtp:// or smtps:// address"),
        (["set", "content.lan_peers", "10.0.7.2:1,http://10.0.7.3:1"], 78, "http://10.0.7.3:1 is not HOST:PORT"),
        (
            ["set", "content.lan_listen", "http://0.0.0.0:1"],
            78,
            "content.lan_listen: http://0.0.0.0:1 is not HOST:PORT",
        ),
        (["set", "bridge.udp_listen", "0.0.0.0"], 78, "bridge.udp_listen: 0.0.0.0 is not HOST:PORT"),
        (["set", "telemetry.batch_readings", "many"], 78, "must be a whole number"),
        (["get"], 2, "missing: SETTING"),
        (["set", "label"], 2, "missing: VALUE"),
        (["list", "labl"], 78, "did you mean 'label'?"),
    ],
)
def test_mistakes_change_nothing(alone: Here, words: list[str], code: int, complaint: str) -> None:
    (alone.state / "empty").touch(0o600)
    before = (alone.state / "config.toml").read_bytes()
    assert complaint in alone.fails("config", *words, code=code)
    assert (alone.state / "config.toml").read_bytes() == before


def test_fragments_and_the_environment_override(alone: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    fragments = alone.state / "conf.d"
    fragments.mkdir()
    (fragments / "10-site.toml").write_text('label = "ten"\n[vault]\nlocation = "/srv/vault"\n')
    (fragments / "20-site.toml").write_text('label = "twenty"\n')
    (fragments / "ignored.toml.bak").write_text("nonsense")
    assert alone.ok("config", "get", "label") == "twenty\n"
    done = alone.covey("config", "set", "label", "mine")
    assert done.code == 0
    assert "20-site.toml overrides this value" in done.stderr
    monkeypatch.setenv("COVEY_LABEL", "env")
    assert alone.json("config", "get", "label")["origin"] == "$COVEY_LABEL"
    assert alone.json("status")["label"] == "env"
    alone.ok("relay", "set", "mqtt://127.0.0.1")  # writes one line, and nothing of what overrides others
    text = (alone.state / "config.toml").read_text()
    assert 'label = "mine"' in text
    assert "/srv/vault" not in text
    assert "conf.d/10-site.toml" in alone.ok("config", "check")


def test_a_mistake_in_a_fragment_names_its_file(alone: Here) -> None:
    fragments = alone.state / "conf.d"
    fragments.mkdir()
    (fragments / "10.toml").write_text("[sensors]\nenable = false\n")
    for words in (["config", "check"], ["status"]):
        message = alone.fails(*words, code=78)
        assert "10.toml: sensors.enable is not a setting" in message
        assert "did you mean 'sensors.enabled'?" in message


def test_the_machines_own_agent_has_settings_in_etc(tmp_path: Path) -> None:
    state, machine = tmp_path / "state", tmp_path / "etc"
    (machine / "conf.d").mkdir(parents=True)
    (machine / "config.toml").write_text('label = "machine"\n[relay]\nurl = "mqtt://machine"\n')
    (machine / "conf.d/50.toml").write_text('label = "fragment"\n')
    folder = StateFolder(state, ConfigurationFiles(state / "config.toml", state / "ordered.json", machine))
    folder.create({"label": "own", "vault.location": "/srv"})
    config = folder.configuration.config()
    assert (config.label, config.relay.url, config.vault.location) == ("fragment", "mqtt://machine", "/srv")
    assert StateFolder.at(Path("/var/lib/covey")).configuration.machine == Path("/etc/covey")
    assert StateFolder.at(tmp_path).configuration.machine is None
    assert StateFolder.at(Path("/var/lib/covey"), tmp_path / "x.toml").configuration.machine is None


def test_a_password_from_the_service_manager(alone: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "covey.relay-password").write_text("from systemd\n")
    folder = StateFolder.at(alone.state)
    alone.ok("relay", "set", "--password-file", "-", feed="from file")
    assert folder.relay_password(folder.configuration.config(), folder.identity()) == "from file"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    assert folder.relay_password(folder.configuration.config(), folder.identity()) == "from systemd"
    (credentials / "covey.relay-password").unlink()
    assert folder.relay_password(folder.configuration.config(), folder.identity()) == "from file"


def test_a_password_goes_where_the_configuration_says(alone: Here, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    alone.ok("config", "set", "relay.password_file", str(elsewhere))
    alone.ok("relay", "set", "mqtt://127.0.0.1", "--password-file", "-", feed="kept")
    folder = StateFolder.at(alone.state)
    assert "kept" not in elsewhere.read_text()
    assert folder.relay_password(folder.configuration.config(), folder.identity()) == "kept"
    elsewhere.write_text("as its owner wrote it\n")
    assert folder.relay_password(folder.configuration.config(), folder.identity()) == "as its owner wrote it"
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert alone.json("relay")[0]["password"] == "set"
