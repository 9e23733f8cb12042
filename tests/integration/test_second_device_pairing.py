"""The second implementation of a device joins by a word code, and by a URI without an account."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.second import Second
from tests.waiting import GUARD_S, wait_until
from tests.warm_covey import WarmDialogue

pytestmark = pytest.mark.broker


@pytest.fixture
def barn(broker: Broker, tmp_path: Path, new_gateway: Callable[[str], Gateway]) -> Gateway:
    """A collector with authority over the broker, so that it gives accounts to whom it lets in."""
    member = new_gateway("barn")
    member.ok("group", "create", "--capability", "collector")
    pid_file = tmp_path / "mosquitto.pid"
    pid_file.write_text(str(broker.pid))
    member.ok("config", "set", "broker.password_file", str(tmp_path / "broker" / "passwords"))
    member.ok("config", "set", "broker.pid_file", str(pid_file))
    member.start("collect", "--no-sensors")
    wait_until(lambda: "relay: connected" in member.log.read_text(), "the agent is connected")
    return member


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Second]:
    """A second implementation without an account."""
    device = Second(tmp_path, None)
    yield device
    device.end()


def _inviting(barn: Gateway, *words: str) -> WarmDialogue:
    with barn.state.with_suffix(".err").open("wb") as errors:
        return WarmDialogue(["invite", "--state", str(barn.state), "--json", *words], errors)


def _documents(output: IO[str]) -> Iterator[Any]:
    for line in output:
        yield json.loads(line)


def test_it_joins_by_a_code_and_delivers_with_the_account_that_it_was_given(
    broker: Broker, barn: Gateway, fresh: Second
) -> None:
    inviting = _inviting(barn)
    try:
        said = _documents(inviting.stdout)
        fresh.start(
            "--code", next(said)["code"], "--relay", broker.url, "--label", "shed", "--count", "20", "--every", "10"
        )
        ours = next(said)
        wait_until(lambda: fresh.said("verifier"), "it shows the words")
        [theirs] = fresh.said("verifier")
        assert theirs["words"] == ours["verifier"]
        assert (theirs["inviter"], theirs["label"], theirs["members"]) == (barn.author, "barn", 1)
        assert (ours["joiner"], ours["label"], ours["lacks_account"]) == (fresh.key[:8], "shed", True)
        inviting.stdin.write("y\n")
        inviting.stdin.flush()
        assert next(said) == {"joined": fresh.key[:8], "label": "shed"}
        assert inviting.wait(GUARD_S) == 0
    finally:
        inviting.kill()
        inviting.wait()
    assert fresh.said("pairing") == [{"event": "pairing", "ended": "paired"}]
    wait_until(lambda: len(landed(barn)) == 20, "its readings land")
    fresh.end()
    fresh.start("--count", "25", "--every", "10")
    wait_until(lambda: len(landed(barn)) == 25, "it has kept its account")


def test_it_joins_by_a_uri_without_an_account(barn: Gateway, fresh: Second) -> None:
    fresh.start("--invite", barn.ok("invite", "--no-wait").strip(), "--count", "20", "--every", "10")
    wait_until(lambda: len(landed(barn)) == 20, "its readings land")
    [shown] = fresh.said("verifier")
    assert len(shown["words"]) == 4


def test_a_wrong_code_ends_with_its_name(broker: Broker, barn: Gateway, fresh: Second) -> None:
    inviting = _inviting(barn, "--yes")
    try:
        number, first, second, third, *password = next(_documents(inviting.stdout))["code"].split("-")
        wrong = "-".join([number, first, second, "zoo" if third != "zoo" else "zone", *password])
        fresh.start("--code", wrong, "--relay", broker.url)
        wait_until(lambda: fresh.said("refusal"), "it is told that the code is wrong")
    finally:
        inviting.kill()
        inviting.wait()
    assert [each["reason"] for each in fresh.said("refusal")] == ["wrong_code"]
    assert not fresh.said("verifier")
