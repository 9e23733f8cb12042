"""`covey.config.ordered`: what an owner's list lets operators set, and what no list does."""

from __future__ import annotations

import pytest

from covey.config.ordered import allowed
from covey.config.settings import settings

_LOCAL = [key for key, about in settings().items() if about.local]


@pytest.mark.parametrize("key", _LOCAL)
def test_no_list_covers_settings_that_belong_to_the_owner(key: str) -> None:
    assert not allowed(("*", key), key)


def test_identity_credentials_and_the_list_itself_are_the_owners_alone() -> None:
    assert {"operations.operators", "operations.settings", "operations.commands", "relay.password_file"} <= set(_LOCAL)


@pytest.mark.parametrize(
    ("patterns", "key", "is_allowed"),
    [
        (("telemetry.batch_*",), "telemetry.batch_seconds", True),
        (("telemetry.batch_*",), "log.level", False),
        (("app.*",), "app.mode", True),
        ((), "app.mode", False),
    ],
)
def test_a_list_of_patterns(patterns: tuple[str, ...], key: str, *, is_allowed: bool) -> None:
    assert allowed(patterns, key) is is_allowed
