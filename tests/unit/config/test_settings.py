"""The schema, the layers, and changing a file without touching what a person wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.config.file import changed_text, config_text, parse, read_configuration
from covey.config.schema import Config, Value
from covey.config.settings import setting, settings, toml_value
from covey.errors import ConfigurationError


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_setting_is_documented() -> None:
    assert len(settings()) >= 11
    for about in settings().values():
        assert len(about.meaning) > 10
        assert about.check(about.default, about.key) == about.default
        assert about.check(about.example, about.key) == about.example
        assert about.example != about.default
        if not isinstance(about.default, str | bool):
            assert about.unit, about.key
            assert about.low is not None


def test_a_new_file_gives_the_defaults_and_names_every_setting() -> None:
    text = config_text({})
    assert parse(text, "x") == {}
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    assert parse(uncommented, "x") == {key: about.default for key, about in settings().items()}


def test_later_layers_win_and_are_named(tmp_path: Path) -> None:
    base = _write(tmp_path / "base.toml", 'label = "base"\n[sensors]\ninterval_seconds = 5\n')
    fragment = _write(tmp_path / "10.toml", 'label = "fragment"\n[relay]\nurl = "mqtt://fragment"\n')
    found = read_configuration([base, fragment], {"COVEY_RELAY_URL": "mqtt://environment", "PATH": "/bin"})
    assert found.config.label == "fragment"
    assert found.config.relay.url == "mqtt://environment"
    assert found.config.sensors.interval_seconds == 5.0
    assert found.value("outbox.maximum_bytes") == Config().outbox.maximum_bytes
    assert found.origins == {
        "label": str(fragment),
        "relay.url": "$COVEY_RELAY_URL",
        "sensors.interval_seconds": str(base),
    }


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("COVEY_SENSORS_ENABLED", "false", False),
        ("COVEY_TELEMETRY_BATCH_SECONDS", "2.5", 2.5),
        ("COVEY_TELEMETRY_BATCH_READINGS", "7", 7),
        ("COVEY_LABEL", "shed", "shed"),
        ("COVEY_BRIDGE_PORTS", "/dev/ttyACM0, /dev/ttyACM1", ("/dev/ttyACM0", "/dev/ttyACM1")),
        ("COVEY_BRIDGE_PORTS", "", ()),
    ],
)
def test_the_environment_is_read_by_type(name: str, text: str, value: Value) -> None:
    (key,) = [each.key for each in settings().values() if each.variable == name]
    assert read_configuration([], {name: text}).value(key) == value


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("COVEY_SENSORS_ENABLED", "yes", "must be true or false"),
        ("COVEY_TELEMETRY_BATCH_READINGS", "many", "must be a whole number"),
        ("COVEY_TELEMETRY_BATCH_SECONDS", "nan", "must be between"),
        ("COVEY_RELAY_URLL", "x", "is not a setting"),
        ("COVEY_RELAY_PASSWORD", "hunter2", "Covey reads no secrets from the environment"),
        ("COVEY_VAULT_KEY", "hunter2", "Covey reads no secrets from the environment"),
    ],
)
def test_a_wrong_variable_is_refused_and_its_value_not_shown(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as raised:
        read_configuration([], {name: text})
    assert f"${name}" in str(raised.value)
    assert "hunter2" not in f"{raised.value} {raised.value.hint}"


def test_variables_of_others_are_left_alone() -> None:
    assert read_configuration([], {"COVEY_STATE": "/x", "COVEY_CONFIG": "/y", "COVEY": "z"}).origins == {}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("lable = 'x'", "did you mean 'label'?"),
        ("[sensor]\nenabled = true", "did you mean '[sensors]'?"),
        ("[relay]\nurll = 'x'", "did you mean 'relay.url'?"),
        ("[outbox]\nmax_bytes = 1", "did you mean 'outbox.maximum_bytes'?"),
        ("[telemetry]\nzzz = 1", "known here: telemetry.group"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(text, "x.toml")
    assert hint in raised.value.hint


def test_a_change_keeps_what_a_person_wrote() -> None:
    text = '# mine\nlabel = "a"  # old\n\n[relay]\n# why this one\nurl = "mqtt://a"\n\n[sensors]\nenabled = false\n'
    changed = changed_text(text, "relay.url", "mqtt://b")
    assert changed == text.replace("mqtt://a", "mqtt://b")
    assert changed_text(text, "relay.ca_file", "/ca.pem") == text.replace(
        'url = "mqtt://a"\n', 'url = "mqtt://a"\nca_file = "/ca.pem"\n'
    )
    assert parse(changed_text(text, "vault.location", "/srv"), "x")["vault.location"] == "/srv"
    assert parse(changed_text(text, "sensors.enabled", None), "x") == {"label": "a", "relay.url": "mqtt://a"}


def test_the_line_that_shows_the_default_is_the_one_that_changes() -> None:
    text = config_text({"label": "x"})
    changed = changed_text(text, "telemetry.batch_seconds", 5.0)
    assert len(changed.splitlines()) == len(text.splitlines())
    assert changed_text(changed, "telemetry.batch_seconds", None) == text


@pytest.mark.parametrize(
    "text",
    [
        'relay = {url = "mqtt://a"}\n',
        'relay = {url = "mqtt://a", ca_file = "/ca"} # mine\n',
        '[relay]\n"url" = "mqtt://a"\n',
        '[relay]\n"url" = "mqtt://a" # why\nca_file = "/ca"\n[vault]\n',
        "relay.url = 'x'\n",
        "label = 'a'\nrelay.ca_file = '/ca'\nrelay.url = 'x' # why\n",
        '[relay]\nurl = """\nmqtt://a"""\n',
    ],
)
def test_a_file_written_in_another_way_is_changed_as_well(text: str) -> None:
    before = parse(text, "x")
    changed = changed_text(text, "relay.url", "mqtt://b")
    assert parse(changed, "x") == before | {"relay.url": "mqtt://b"}
    assert [word for word in ("# mine", "# why") if word in text] == [w for w in ("# mine", "# why") if w in changed]
    gone = changed_text(changed, "relay.url", None)
    assert parse(gone, "x") == {key: value for key, value in before.items() if key != "relay.url"}
    assert parse(changed_text(gone, "relay.url", "mqtt://c"), "x") == before | {"relay.url": "mqtt://c"}


@given(
    st.text().filter(lambda text: len(text.encode(errors="replace")) <= 60),
    st.sampled_from(["label", "vault.location"]),
)
def test_any_text_comes_back(text: str, key: str) -> None:
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        return
    assert tomllib.loads(f"x = {toml_value(text)}") == {"x": text}
    assert parse(changed_text(config_text({}), key, text), "x") == {key: text}


def test_errors_name_the_bounds() -> None:
    with pytest.raises(ConfigurationError, match="at most 64 bytes"):
        setting("label").check("ü" * 33, "label")
    with pytest.raises(ConfigurationError, match="at most 16"):
        setting("bridge.ports").check(["/dev/ttyACM0"] * 17, "bridge.ports")
    for wrong in ([1], "/dev/ttyACM0", [["/dev/ttyACM0"]]):
        with pytest.raises(ConfigurationError, match="must be a list of texts"):
            setting("bridge.ports").check(wrong, "bridge.ports")
    with pytest.raises(ConfigurationError, match="must be text"):
        setting("label").check(1, "label")
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        setting("outbox.maximum_bytes").check(True, "outbox.maximum_bytes")
