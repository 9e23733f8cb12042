"""Groups, invites and blobs through the command line and a real broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from covey.adapters.state_folder import StateFolder
from covey.core.ids import NoisePublic
from covey.core.wire.envelope import seal
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

NewGateway = Callable[[str], Gateway]


def _pair(new_gateway: NewGateway, *names: str) -> list[Gateway]:
    """Return gateways in one group; the first one created it and its agent runs."""
    first, *others = [new_gateway(name) for name in names]
    first.ok("group", "create")
    first.start("run", "--no-sensors")
    for other in others:
        first.invite(other)
    return [first, *others]


def test_a_blob_reaches_every_other_member_once(new_gateway: NewGateway) -> None:
    # accepts: 001.01, 001.02, 001.03, 001.07, 000.18, 000.19
    one, two, three = _pair(new_gateway, "one", "two", "three")
    members = {member["label"] for member in three.json("group", "show")["members"]}
    assert members == {"one", "two", "three"}
    for gateway in (two, three):
        gateway.start("run", "--no-sensors")
    wait_until(lambda: two.json("group", "show")["version"] == 3, "two knows three")

    assert two.json("message", "send", "--text", "hello")["recipients"] == 2
    for gateway in (one, three):
        blob = gateway.json("message", "receive", "--wait", "300")
        assert base64.b64decode(blob["body"]) == b"hello"
        assert blob["author"] == two.author
        assert gateway.covey("message", "receive").returncode == 1
    wait_until(lambda: two.queued() == 0, "both have acknowledged")


def test_an_invite_is_for_one_device(new_gateway: NewGateway) -> None:
    one, two, three = [new_gateway(name) for name in ("one", "two", "three")]
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    invite = one.ok("invite", "--no-wait")
    two.ok("join", "-", feed=invite)
    assert "no answer yet" in three.fails("join", "-", "--timeout", "2", feed=invite, code=124)
    assert one.counters()["dropped_invite"] >= 1
    assert len(one.json("group", "show")["members"]) == 2
    assert three.json("status")["pending_joins"] == 1


def test_a_member_that_was_away_gets_what_was_sent(new_gateway: NewGateway) -> None:
    # accepts: 001.09, 001.12, 001.16
    one, two, three = _pair(new_gateway, "one", "two", "three")
    one.end()
    for number in range(20):
        one.ok("message", "send", "--text", f"{number}")
    one.start("run", "--no-sensors")
    two.start("run", "--no-sensors")
    blobs: list[str] = []
    wait_until(lambda: len(_take(two, blobs)) >= 20, "two has all")
    assert blobs == [str(number) for number in range(20)]
    assert two.json("group", "show")["version"] == 3
    three.start("run", "--no-sensors")
    wait_until(lambda: one.queued() == 0, "three has acknowledged, too")


def _take(gateway: Gateway, blobs: list[str]) -> list[str]:
    """Add what has arrived."""
    lines = gateway.ok("message", "receive", "--all", "--json").splitlines()
    blobs.extend(base64.b64decode(json.loads(line)["body"]).decode() for line in lines)
    return blobs


def test_a_damaged_or_foreign_envelope_disturbs_nothing(
    new_gateway: NewGateway, new_relay_client: Callable[..., object]
) -> None:
    # accepts: 000.12, 000.24, 001.05, 002.37
    one, two = _pair(new_gateway, "one", "two")
    stranger = new_relay_client().up()  # type: ignore[attr-defined]
    topic = f"covey/1/in/{one.account}"
    hostile = [
        b"",
        b"\x00",
        b"\xff" * 1000,
        b"\x84\x01" + b"\x58\x20" + bytes(32),
        seal(b"not a message", NoisePublic(bytes.fromhex(one.noise_public)), b"\x01" * 32, bytes(24)),
        seal(b"for somebody else", NoisePublic(bytes.fromhex(two.noise_public)), b"\x01" * 32, bytes(24)),
    ]
    for payload in hostile:
        stranger.relay.publish(topic, payload)
    two.ok("message", "send", "--text", "still here", "--wait", "300")
    assert one.ok("message", "receive") == "still here"
    dropped = {name: count for name, count in one.counters().items() if name.startswith("dropped_")}
    assert sum(dropped.values()) == len(hostile), dropped


def test_an_agent_that_is_killed_loses_nothing(new_gateway: NewGateway) -> None:
    # accepts: 000.28
    one, two = _pair(new_gateway, "one", "two")
    two.start("run", "--no-sensors")
    for number in range(5):
        two.ok("message", "send", "--text", f"{number};")
        one.kill()
        one.start("run", "--no-sensors")
    wait_until(lambda: two.queued() == 0, "everything is acknowledged")
    assert one.ok("message", "receive", "--all") == "0;1;2;3;4;"


def test_a_removed_device_is_notified_and_filtered(new_gateway: NewGateway) -> None:
    # accepts: 000.20, 000.21, 000.26, 001.05, 001.06, 003.80
    one, two, three = _pair(new_gateway, "one", "two", "three")
    for gateway in (two, three):
        gateway.start("run", "--no-sensors")
    wait_until(lambda: two.json("group", "show")["version"] == 3, "two knows three")
    assert "--yes" in one.fails("group", "remove", "two", code=2)
    shown = one.json("group", "remove", "two", "--yes")
    assert (shown["version"], shown["epoch"]) == (4, 2)
    assert {member["label"] for member in shown["members"]} == {"one", "three"}
    wait_until(lambda: "this device was removed" in two.log.read_text(), "two is told")
    assert "no group" in two.fails("group", "show", code=1)
    wait_until(lambda: three.json("group", "show")["version"] == 4, "three knows")
    assert one.json("message", "send", "--text", "without two")["recipients"] == 1
    assert "removed" in three.ok("group", "log").splitlines()[-1]
    assert "removed" in three.ok("group", "diff")

    three.ok("group", "leave", "--yes")
    wait_until(lambda: one.json("group", "show")["version"] == 5, "three has left")
    one.ok("group", "leave", "--yes")
    assert "no group" in one.fails("group", "show", code=1)


def test_a_banned_device_does_not_come_back_until_it_is_unbanned(new_gateway: NewGateway) -> None:
    # accepts: 003.34
    one, two = _pair(new_gateway, "one", "two")
    two.start("run", "--no-sensors")
    name = two.json("status")["device"]
    assert one.json("group", "ban", name, "--yes")["banned"]
    wait_until(lambda: "this device was removed" in two.log.read_text(), "two is told")
    two.end()
    invite = one.ok("invite", "--no-wait")
    assert "no answer yet" in two.fails("join", "-", "--timeout", "3", feed=invite, code=124)
    shown = one.json("group", "unban", name)
    assert (shown["banned"], len(shown["members"])) == ([], 2)
    two.start("run", "--no-sensors")
    wait_until(lambda: len(two.json("status")["groups"]) == 1, "two is a member again")
    one.ok("group", "ban", name, "--yes")
    wait_until(lambda: two.json("status")["groups"] == [], "two is told")
    two.end()
    assert len(one.json("group", "unban", name, "--no-add")["members"]) == 1
    one.invite(two)
    assert len(one.json("group", "show")["members"]) == 2

    one.ok("group", "ban", name, "--yes")
    before = one.counters().get("dropped_not_a_member", 0)
    two.ok("group", "destroy", "--yes")  # it has not heard of the ban: the one crosses the other
    two.start("run", "--no-sensors")
    wait_until(lambda: one.counters().get("dropped_not_a_member", 0) > before, "one hears of the destruction")
    assert [member["label"] for member in one.json("group", "show")["members"]] == ["one"]


def test_a_public_group_is_joined_by_its_uri(new_gateway: NewGateway) -> None:
    # accepts: 003.07, 003.09, 003.86
    one, two, three = [new_gateway(name) for name in ("one", "two", "three")]
    one.ok("group", "create", "--mode", "public")
    one.start("run", "--no-sensors")
    two.ok("join", "-", feed=one.ok("group", "uri"))
    two.start("run", "--no-sensors")
    one.end()  # a member that is no admin answers as well
    assert three.json("join", two.json("group", "uri")["uri"])["version"] == 3
    three.ok("message", "send", "--text", "hello")
    three.start("run", "--no-sensors")
    wait_until(lambda: two.covey("message", "receive").stdout == "hello", "two hears three")
    one.start("run", "--no-sensors")
    wait_until(lambda: len(one.json("group", "show")["members"]) == 3, "one knows three")
    assert one.ok("message", "receive", "--wait", "300") == "hello"


def test_a_destroyed_group_is_forgotten_by_all(new_gateway: NewGateway) -> None:
    # accepts: 000.22, 000.23
    _, two, three = gateways = _pair(new_gateway, "one", "two", "three")
    for gateway in (two, three):
        gateway.start("run", "--no-sensors")
    wait_until(lambda: two.json("group", "show")["version"] == 3, "two knows three")
    before = [gateway.author for gateway in gateways]
    assert "--yes" in two.fails("group", "destroy", code=2)
    two.ok("group", "destroy", "--yes")
    assert "no group" in two.fails("group", "show", code=1)
    for gateway in gateways:
        wait_until(lambda gateway=gateway: "deleted its state" in gateway.log.read_text(), f"{gateway.name} forgets")
    for gateway, author in zip(gateways, before, strict=True):
        status = gateway.json("status")
        assert (status["device"] != author[:8], status["groups"]) == (True, [])


def test_admins_ban_by_more_than_half_of_their_votes(new_gateway: NewGateway) -> None:
    # accepts: 003.07, 003.34, 003.35, 003.36
    one, two, three, four = gateways = [new_gateway(name) for name in ("one", "two", "three", "four")]
    one.ok("group", "create", "--mode", "admin-invites")
    one.start("run", "--no-sensors")
    for other in (two, three, four):
        one.invite(other)
    for gateway in (two, three, four):
        gateway.start("run", "--no-sensors")
    for version, name in ((5, "two"), (6, "three")):
        one.ok("group", "add-admin", name)
        for gateway in gateways:
            wait_until(
                lambda gateway=gateway, version=version: gateway.json("group", "show")["version"] == version,
                f"{gateway.name} has version {version}",
            )
    assert "is not allowed to do that" in four.fails("group", "profile", "one", "--label", "mine", code=1)
    assert "only an admin" in four.fails("group", "ban", "one", "--yes", code=1)
    assert len(one.json("group", "ban", "four", "--yes")["members"]) == 4, "one vote of two does not decide"
    wait_until(lambda: "votes to ban" in two.log.read_text(), "two hears of the vote")
    [vote] = two.json("group", "show")["votes"]
    assert (vote["action"], len(vote["voters"]), vote["needed"]) == ("ban", 1, 2)
    assert "1 of 2 votes so far" in two.ok("group", "show")
    assert "votes to ban" not in four.log.read_text()
    shown = two.json("group", "ban", "four", "--yes")
    assert (len(shown["members"]), len(shown["banned"]), shown["votes"]) == (3, 1, [])
    wait_until(lambda: "this device was removed" in four.log.read_text(), "four is told")
    wait_until(lambda: len(three.json("group", "show")["members"]) == 3, "three knows")


def test_a_noise_key_is_replaced_under_running_agents(new_gateway: NewGateway) -> None:
    # accepts: 002.32, 003.05
    one, two = _pair(new_gateway, "one", "two")
    two.start("run", "--no-sensors")
    before = two.json("key", "show")
    assert before["retired_noise_keys"] == []
    after = two.json("key", "rotate")
    assert after["signing_key"] == before["signing_key"]
    assert after["noise_key"] != before["noise_key"]
    assert [each["noise_key"] for each in after["retired_noise_keys"]] == [before["noise_key"]]
    wait_until(lambda: one.json("key", "show", "two")["noise_key"] == after["noise_key"], "one knows the new key")
    one.ok("message", "send", "--text", "to the new key", "--wait", "300")
    assert two.ok("message", "receive") == "to the new key"
    assert "decryption" not in two.log.read_text()
    two.kill()
    two.start("run", "--no-sensors")
    one.ok("message", "send", "--text", "after a restart", "--wait", "300")
    assert two.ok("message", "receive") == "after a restart"
    assert "before" in two.ok("key", "show")
    assert two.json("key", "show", "one")["retired_noise_keys"] == []
    assert "one argument too many" in two.fails("key", "rotate", "one", code=2)
    reported = (
        two.log.read_text() + two.ok("key", "show") + two.ok("status", "--json") + two.ok("group", "show", "--json")
    )
    identity = StateFolder.at(two.state).identity()
    for secret in (identity.signing_seed, *(key.secret.reveal() for key in identity.noise.keys)):
        assert secret.hex() not in reported
        assert repr(secret)[2:-1] not in reported


def test_a_device_that_is_not_here_is_added_by_its_keys(new_gateway: NewGateway) -> None:
    # accepts: 003.12, 003.16
    one, two, three = [new_gateway(name) for name in ("one", "two", "three")]
    one.ok("group", "create")
    keys = two.json("key", "show")
    words = ("group", "add", keys["noise_key"], keys["signing_key"], "--label", "box 17", "--capability", "collector")
    added = one.json(*words)
    assert (added["device"], added["fingerprint"]) == (keys["device"], keys["fingerprint"])
    shown = one.json("group", "profile", "box 17")[0]
    assert (shown["signing_public"], shown["capabilities"]) == (two.author, ["collector"])
    one.start("run", "--no-sensors")
    assert "no answer yet" in three.fails("join", "-", "--timeout", "2", feed=added["uri"], code=124), (
        "it is not for three"
    )
    two.ok("join", "-", feed=added["uri"])
    assert two.json("group", "show")["version"] == 2
    assert "already a member" in one.fails(*words, code=1)
    one.ok("group", "remove", "box 17", "--yes")
    two.start("run", "--no-sensors")
    wait_until(lambda: "this device was removed" in two.log.read_text(), "two is told")
    two.end()
    assert "no answer yet" in two.fails("join", "-", "--timeout", "2", feed=added["uri"], code=124), "nor for two again"
    mistyped = keys["signing_key"][:-1] + ("a" if keys["signing_key"][-1] != "a" else "b")
    assert "key" in one.fails("group", "add", mistyped, keys["noise_key"], code=2)
    assert "missing: KEY" in one.fails("group", "add", keys["signing_key"], code=2)


def test_labels_that_look_alike_or_lie_are_shown_with_what_does_not(new_gateway: NewGateway) -> None:
    # accepts: 000.08
    one, two = _pair(new_gateway, "one", "two")
    two.start("run", "--no-sensors")
    liar = "\N{CYRILLIC SMALL LETTER O}ne\N{RIGHT-TO-LEFT OVERRIDE}\x1b[31m"
    assert two.json("group", "profile", "--label", liar)[0]["label"] == liar
    wait_until(lambda: one.json("group", "profile", two.author[:8])[0]["label"] == liar, "one knows the label")
    for words in (("group", "members"), ("group", "show"), ("group", "profile", two.author[:8])):
        reported = one.ok(*words)
        assert not {"\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}"} & set(reported)
        assert two.author[:8] in reported
    fingerprints = {member["fingerprint"] for member in one.json("group", "members")}
    assert fingerprints == {gateway.json("key", "show")["fingerprint"] for gateway in (one, two)}
    assert all(each in one.ok("group", "members") for each in fingerprints)


def test_the_latest_entries_are_handed_over_before_a_group_is_left(new_gateway: NewGateway) -> None:
    one, two = _pair(new_gateway, "one", "two")
    two.ok("history", "post", "last words")
    one.end()
    refused = two.fails("group", "leave", "--yes", code=1)
    assert "no member of group" in refused
    assert "--delete-now" in refused
    one.start("run", "--no-sensors")
    two.ok("group", "leave", "--yes")
    two.start("run", "--no-sensors")
    wait_until(lambda: len(one.json("group", "show")["members"]) == 1, "two has left")
    assert "last words" in one.ok("history", "log")
