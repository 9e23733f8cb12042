"""`[[door]]`: what is written wrong is said, and where."""

from __future__ import annotations

from typing import Any

import pytest

from covey.config.doors import Common, DoorEntry, HomeAssistant, Otlp, Webhook, read_doors
from covey.config.file import door_tables, parse
from covey.errors import ConfigurationError
from covey.limits.doors import MAXIMUM_DOORS

_CLOUD = {"name": "cloud", "kind": "webhook", "url": "https://example.org/in"}


def _read(*tables: dict[str, Any]) -> tuple[DoorEntry, ...]:
    return read_doors(("config.toml", each) for each in tables)


def test_a_door_is_a_name_a_kind_and_a_url() -> None:
    text = 'label = "hub"\n[[door]]\nname = "cloud"\nkind = "webhook"\nurl = "https://example.org/in"\nstart = "all"\n'
    assert parse(text, "config.toml") == {"label": "hub"}
    (entry,) = _read(*door_tables(text, "config.toml"))
    assert entry == DoorEntry("cloud", "webhook", Common(start="all"), Webhook(url="https://example.org/in"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "Cloud/+"}, "lower-case letters"),
        ({"name": 7}, "lower-case letters"),
        ({"kind": "carrier-pigeon"}, "kind must be one of"),
        ({"url": ""}, "url is missing"),
        ({"url": "htp://x"}, "url must begin with http:// or https://"),
        ({"url": "example.org/in"}, "url must begin with http"),
        ({"kind": "home-assistant", "url": "http://hub"}, "url must begin with mqtt:// or mqtts://"),
        ({"start": "yesterday"}, "must be one of: new, all"),
        ({"backlog_seconds": 0}, "between 1 and"),
        ({"interval_seconds": float("nan")}, "between 0.1 and"),
        ({"secrets_file": "x"}, "secrets_file is unknown"),
        ({"token_file": ["x"]}, "must be text"),
    ],
)
def test_a_mistake_is_named_with_its_door(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"config.toml: .*{why}") as caught:
        _read(_CLOUD | change)
    assert caught.value.hint


def test_a_key_that_is_nearly_one_is_helped_with() -> None:
    with pytest.raises(ConfigurationError) as caught:
        _read(_CLOUD | {"tokenfile": "x"})
    assert caught.value.hint == "did you mean 'token_file'?"


def test_each_kind_has_keys_of_its_own() -> None:
    home = {
        "name": "home",
        "kind": "home-assistant",
        "url": "mqtts://covey@hub.local",
        "password_file": "home.password",
    }
    (entry,) = _read(home)
    assert entry.options == HomeAssistant(url="mqtts://covey@hub.local", password_file="home.password")
    (entry,) = _read({"name": "metrics", "kind": "otlp", "url": "http://localhost:4318"})
    assert entry.options == Otlp(url="http://localhost:4318")
    with pytest.raises(ConfigurationError, match="secret_file is unknown"):
        _read(home | {"secret_file": "x"})
    for half in ({"token_file": "x"}, {"history_url": "http://hub.local:8123"}):
        with pytest.raises(ConfigurationError, match="history_url needs token_file"):
            _read(home | half)


def test_names_are_taken_once_and_doors_are_few() -> None:
    with pytest.raises(ConfigurationError, match="two doors are named cloud"):
        _read(_CLOUD, _CLOUD)
    with pytest.raises(ConfigurationError, match=f"more than {MAXIMUM_DOORS} doors"):
        _read(*(_CLOUD | {"name": f"d{n}"} for n in range(MAXIMUM_DOORS + 1)))


def test_one_table_alone_is_helped_with() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse('[door]\nname = "cloud"\nkind = "webhook"\n', "config.toml")
    assert caught.value.hint == "each door is a table of its own: [[door]]"
