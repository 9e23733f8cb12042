"""Link envelopes between two agents and a real broker, over a restart of either side."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sqlite3
from collections.abc import Callable

import pytest

from covey.cli.main import main
from covey.core.wire.envelope import LINKED, SEALED
from covey.limits.link_key import LINK_AFTER_ENVELOPES
from covey.ports import Delivered
from tests.integration.gateway import Gateway
from tests.integration.relay_client import RelayClient
from tests.waiting import wait_until

Look = Callable[[Gateway], int]


@pytest.fixture
def version_waiting(new_relay_client: Callable[..., RelayClient]) -> Look:
    """Look at what the broker keeps for a gateway whose agent is off, and leave it there."""

    def look(gateway: Gateway) -> int:
        password = gateway.relay_password
        spy = new_relay_client(username=gateway.account, password=password).up()
        version = spy.wait_for(Delivered).payload[1]
        spy.relay.stop()
        return version

    return look


def _say(gateway: Gateway, *texts: str) -> None:
    for text in texts:
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["message", "send", "--state", str(gateway.state), "--text", text]) == 0


def _newest_key(gateway: Gateway) -> int:
    """Return the number of the newest link key that a gateway holds."""
    with contextlib.closing(sqlite3.connect(f"file:{gateway.state / 'state.sqlite'}?mode=ro", uri=True)) as store:
        [(newest,)] = store.execute("SELECT coalesce(max(id), 0) FROM link_key").fetchall()
    return int(newest)


def _received(gateway: Gateway, wanted: list[str]) -> None:
    got: list[str] = []

    def all_there() -> bool:
        lines = gateway.ok("message", "receive", "--all", "--json").splitlines()
        got.extend(base64.b64decode(json.loads(line)["body"]).decode() for line in lines)
        return len(got) >= len(wanted)

    wait_until(all_there, "everything has come")
    assert sorted(got) == sorted(wanted)


def test_a_link_between_two_agents(new_gateway: Callable[[str], Gateway], version_waiting: Look) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create")
    one.start("run")
    one.invite(two)
    two.start("run")
    many = [f"message {number}" for number in range(LINK_AFTER_ENVELOPES)]

    def agree_on_a_key() -> None:
        before = _newest_key(two)
        _say(one, *many)
        wait_until(lambda: _newest_key(two) > before, "the recipient has the key")
        wait_until(lambda: one.queued() == two.queued() == 0, "both are at rest")
        _received(two, many)

    def say_while_away(text: str) -> int:
        two.end()
        _say(one, text)
        version = version_waiting(two)
        two.start("run")
        _received(two, [text])
        wait_until(lambda: one.queued() == 0, "it is acknowledged")
        return version

    agree_on_a_key()
    two.kill()
    two.start("run")
    assert say_while_away("the recipient has kept the key") == LINKED
    one.kill()
    one.start("run")
    assert say_while_away("the sender has not") == SEALED
    agree_on_a_key()
    assert say_while_away("it has drawn another one") == LINKED
    assert "dropped_decryption" not in {**one.counters(), **two.counters()}
