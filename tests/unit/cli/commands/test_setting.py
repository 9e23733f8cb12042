"""`covey setting` as an operator uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import device_on
from covey.app.orders.setting_role import give_back, settings_role, write_layer_at_start
from tests.command import Here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Here:
    device = Here(tmp_path_factory.mktemp("made"), "kim")
    device.ok("group", "create")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    return device


@pytest.fixture
def kim(tmp_path: Path, made: Here) -> Here:
    """An operator's device, in a group of its own."""
    return made.copied(tmp_path)


@pytest.mark.slow
def test_an_ordered_value_is_in_the_difference_and_in_the_history(kim: Here) -> None:
    assert "no operator has set it" in kim.ok("setting", "history", "app.mode")
    assert "nothing is set" in kim.ok("setting", "diff")
    first = kim.json("setting", "set", "app.mode", "eco")
    assert first["devices"] == 1
    limit = kim.json("setting", "set", "app.limit", "5", "--for", "kim")
    assert (limit["devices"], kim.ok("history", "log", "--type", "setting").count("app.limit = 5 for")) == (1, 1)
    kim.ok("setting", "set", "app.mode", "turbo")
    rows = kim.json("setting", "diff")
    assert [(each["key"], each["wanted"], each["state"], each["agrees"]) for each in rows] == [
        ("app.limit", 5, None, False),
        ("app.mode", "turbo", None, False),
    ]
    assert [each["outcomes"] for each in kim.json("order")] == [{"replaced": 1}, {"waiting": 1}, {"waiting": 1}]
    entries = kim.json("setting", "history", "app.mode")
    assert [(each["value"], each["selector"], each["counts"]) for each in entries] == [
        ("eco", "all", True),
        ("turbo", "all", True),
    ]
    assert entries[0]["id"] == first["id"]
    kim.ok("setting", "unset", "app.mode")
    assert "(own value)" in kim.ok("setting", "diff", "app.mode")
    assert "no operator has set anything" in kim.ok("setting")
    assert "no operator has set app.mode on" in kim.ok("setting", "get", "app.mode")


@pytest.mark.slow
def test_a_setting_that_reverted_itself_is_shown_in_every_view(kim: Here) -> None:
    kim.ok("setting", "set", "presence.interval_seconds", "60")
    _agent_runs(kim)
    _agent_runs(kim)
    order = kim.json("setting", "set", "presence.interval_seconds", "9")["id"]
    _agent_runs(kim, fails_with="the agent does not come up")
    shown = kim.ok("setting", "get")
    assert re.search(r"presence\.interval_seconds +60 +reverted .* the agent does not come up", shown)
    assert re.search(
        r" 9 +reverted to 60 +the agent does not come up\n0 of 1 ordered value in use", kim.ok("setting", "diff")
    )
    assert "results: covey setting diff" in kim.ok("order", "show", order[:8])
    assert [each["outcomes"] for each in kim.json("order")] == [{"replaced": 1}, {"reverted": 1}]
    first, last = kim.json("setting", "history", "presence.interval_seconds")
    name = f"{kim.json('status')['device']} kim"
    assert (first["reverted"], last["reverted"], last["id"]) == ([], [name], order)
    assert f"reverted on {name}" in kim.ok("setting", "history", "presence.interval_seconds")


def _agent_runs(here: Here, fails_with: str = "") -> None:
    """Have an agent begin, and obey; then have what it cannot begin with go back, where that is said."""
    folder = StateFolder.at(here.state)
    with device_on(folder, folder.identity(), folder.configuration.config()) as device:
        write_layer_at_start(device)
        settings_role(device, lambda: None).turn(device.node, device.now())
        assert not fails_with or give_back(device, fails_with)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("telemetry.batch_seconds", "often"), 1, "must be a number"),
        (("telemetry.batch_seconds", "-1"), 1, "must be between"),
        (("sensors.enabled", "7"), 1, "must be true or false"),
        (("nonsense", "7"), 1, "'covey config list' shows all"),
        (("operations.settings", "*"), 1, "only a device's owner can set"),
        (("relay.password_file", "/etc/shadow"), 1, "only a device's owner can set"),
        (("telemetry.batch_secs", "7"), 1, "did you mean 'telemetry.batch_seconds'?"),
        (("app.Mode", "eco"), 1, "not a valid name for a program's setting"),
        (("app.mode", "eco", "--for", "label:nobody"), 2, "no device of the group has the label"),
        (("app.mode", "eco", "--for", "ffffffff"), 2, "is not a device of the group"),
        (("app.mode", "eco", "--for", "kim", "--for", "ann"), 2, "give several names at once: --for one,two"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_ordered(
    kim: Here, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in kim.fails("setting", "set", *words, code=code)
    assert kim.json("setting", "diff", "--all") == []


@pytest.mark.slow
def test_a_setting_that_no_operator_set_cannot_be_unset(kim: Here) -> None:
    assert "no operator has set app.mode for all" in kim.fails("setting", "unset", "app.mode", code=1)
    assert kim.json("setting", "history", "app.mode") == []
    kim.ok("setting", "set", "app.mode", "eco")
    for _ in range(2):  # of two operators who take it back, neither is wrong
        kim.ok("setting", "unset", "app.mode")


def test_a_word_that_is_no_setting_is_taken_for_no_setting(kim: Here) -> None:
    assert "did you mean 'diff'?" in kim.fails("setting", "dif", code=2)
    assert kim.ok("setting", "telemetry") == "no operator has set telemetry on this device\n"
    assert kim.ok("setting", "app.mode") == "no operator has set app.mode on this device\n"


def test_a_device_that_is_not_an_operator_cannot_give_orders(kim: Here) -> None:
    kim.ok("config", "unset", "operations.operators")
    assert "not an operator" in kim.fails("setting", "set", "app.mode", "eco", code=1)
    StateFolder.at(kim.state).configuration.change({"operations.operators": ("covey-sign-nonsense",)})
    assert "operations.operators" in kim.fails("setting", "set", "app.mode", "eco", code=78)


@pytest.mark.slow
def test_a_secret_is_given_by_stdin_or_a_file_and_never_shown(kim: Here, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hunter2\n")
    kim.ok("setting", "set", "app.token", "--secret", "--from", str(file))
    assert "for 1 device" in kim.ok("setting", "set", "app.token", "--secret", feed="hunter2\n")
    given = kim.json("setting", "set", "app.token", "-", "--secret", "--for", "label:kim", feed="hunter2\n")
    shown = [
        kim.ok("setting", "diff"),
        kim.ok("setting", "history", "app.token"),
        kim.ok("history", "log"),
        kim.ok("history", "show", given["id"]),
        kim.ok("order"),
    ]
    assert not any("hunter2" in each for each in shown)
    assert all("(sealed)" in each for each in shown[:2])
    [row] = kim.json("setting", "diff")
    assert (row["wanted"], row["sealed"]) == (None, True)
    state = b"".join(each.read_bytes() for each in (tmp_path / "kim").rglob("*") if each.is_file())
    assert b"hunter2" not in state


def test_a_secret_setting_does_not_become_readable_by_mistake(kim: Here) -> None:
    kim.ok("setting", "set", "app.token", "--secret", feed="hunter2")
    assert "is a secret, and" in kim.fails("setting", "set", "app.token", "hunter3", code=1)
    kim.ok("setting", "unset", "app.token")
    kim.ok("setting", "set", "app.token", "hunter3")


@pytest.mark.parametrize(
    ("words", "feed", "code", "said"),
    [
        (("app.token", "hunter2", "--secret"), "", 2, "process list"),
        (("telemetry.batch_seconds", "--secret"), "5", 1, "only a program's own setting can be secret"),
        (("app.token", "--secret"), "\n", 2, "stdin is empty"),
        (("app.token", "--secret"), "x" * 12_285, 1, "a secret must have at most"),
        (("app.token", "--secret", "--for", "label:nobody"), "hunter2", 2, "no device of the group"),
        (("app.token",), "", 2, "no value is given"),
        (("app.token", "eco", "--from", "-"), "", 2, "exclude each other"),
    ],
)
def test_a_mistake_with_a_secret(kim: Here, words: tuple[str, ...], feed: str, code: int, said: str) -> None:
    error = kim.fails("setting", "set", *words, code=code, feed=feed)
    assert said in error
    assert "hunter2" not in error
    assert kim.json("setting", "diff", "--all") == []
