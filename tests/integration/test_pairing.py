"""Pairing by a code, by a URI without an account, and invitations to further groups: real commands, a real broker."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.broker.mosquitto_passwords import write_account
from covey.adapters.keys.relay_credential import accounts
from covey.adapters.state_folder import StateFolder
from covey.core.pairing.messages import Offer, Password, Reason, Refusal, from_wire, to_wire
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.integration.mqtt_client import Client
from tests.waiting import GUARD_S, wait_until
from tests.warm_covey import WarmDialogue

pytestmark = pytest.mark.broker


class Process:
    """A command that goes on, and the JSON documents that it prints."""

    def __init__(self, gateway: Gateway, *words: str, program: Sequence[str] | None = None) -> None:
        self.errors = gateway.state.with_suffix(f".{words[0]}.err")
        words = (words[0], "--state", str(gateway.state), *words[1:], "--json")
        self.process: WarmDialogue | subprocess.Popen[str]
        with self.errors.open("wb") as errors:
            if program is None:
                self.process = WarmDialogue(words, errors)
            else:
                pipe = subprocess.PIPE
                self.process = subprocess.Popen([*program, *words], stdin=pipe, stdout=pipe, stderr=errors, text=True)

    def document(self) -> Any:
        """Return the next document."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        return json.loads(line)

    def says(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        return self.process.wait(timeout=GUARD_S)

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Start commands that are killed at the end."""
    made: list[Process] = []

    def make(gateway: Gateway, *words: str, program: Sequence[str] | None = None) -> Process:
        made.append(Process(gateway, *words, program=program))
        return made[-1]

    yield make
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        for pipe in (each.process.stdin, each.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def barn(broker: Broker, tmp_path: Path, new_gateway: Callable[[str], Gateway]) -> Gateway:
    """A member with authority over the broker."""
    member = new_gateway("barn")
    member.ok("group", "create")
    pid_file = tmp_path / "mosquitto.pid"
    pid_file.write_text(str(broker.pid))
    member.ok("config", "set", "broker.password_file", str(tmp_path / "broker" / "passwords"))
    member.ok("config", "set", "broker.pid_file", str(pid_file))
    return member


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    """Make gateways that have no account, and know no broker."""
    made: list[Gateway] = []

    def make(name: str) -> Gateway:
        made.append(Gateway(tmp_path, name))
        return made[-1]

    yield make
    for gateway in made:
        gateway.kill()


def run_agent(gateway: Gateway) -> None:
    """Start the agent, and wait until it has the relay: a command that speaks with it meanwhile would let go."""
    gateway.start("run")
    wait_until(lambda: "relay: connected" in gateway.log.read_text(), "the agent is connected")


def members(gateway: Gateway) -> set[str]:
    """Return the signing keys of the only group's members, as a gateway believes."""
    group = gateway.json("group", "show")
    return {member["signing_public"] for member in group["members"]}


@pytest.mark.parametrize("agent", [True, False])
def test_a_fresh_device_becomes_a_member_with_its_own_account(
    agent: bool, broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.13, 003.14
    barn.ok("group", "profile", "--title", "Pumps")
    if agent:
        run_agent(barn)
    pi = fresh("pi")
    inviting = start(barn, "invite")
    code = inviting.document()["code"]
    joining = start(pi, "join", code, "--relay", broker.url)
    theirs, ours = joining.document(), inviting.document()
    assert theirs["verifier"] == ours["verifier"]
    assert len(ours["verifier"]) == 4
    assert (theirs["inviter"], theirs["label"]) == (barn.author[:8], "barn")
    [shown] = theirs["group"].pop("shown")
    assert theirs["group"] == {
        "group_id": barn.json("group", "show")["group_id"],
        "title": "Pumps",
        "members": 1,
        "description": "",
        "picture": None,
    }
    assert (shown["name"], shown["label"], len(shown["fingerprint"])) == (barn.author[:8], "barn", 39)
    assert (ours["joiner"], ours["label"], ours["lacks_account"]) == (pi.author[:8], "pi", True)
    inviting.says("y")
    assert {member["signing_public"] for member in joining.document()["members"]} == {barn.author, pi.author}
    assert inviting.document() == {"joined": pi.author[:8], "label": "pi"}
    assert (joining.end(), inviting.end()) == (0, 0)
    password = pi.state / "relay.password"
    assert password.stat().st_mode & 0o777 == 0o600
    assert pi.json("relay")[0]["url"] == broker.url
    assert members(barn) == members(pi) == {barn.author, pi.author}
    assert "already used that code" in pi.fails("join", code, "--relay", broker.url, code=1)
    if not agent:
        barn.start("run")
    pi.ok("message", "send", "--wait", "300", feed="from the new one")
    assert "from the new one" in barn.ok("message", "receive", "--wait", "300")


def test_a_new_device_obeys_the_operators_that_its_owner_was_shown(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.14
    barn.ok("config", "set", "operations.operators", barn.json("key", "show")["signing_key"])
    run_agent(barn)
    pi = fresh("pi")
    inviting = start(barn, "invite", "--yes")
    joining = start(pi, "join", inviting.document()["code"], "--relay", broker.url, "--obey")
    theirs, ours = joining.document(), inviting.document()
    assert [each["label"] for each in theirs["operators"]] == ["barn"]
    assert theirs["operators"] == ours["operators"] == joining.document()["obeys"]
    assert inviting.document() == {"joined": pi.author[:8], "label": "pi"}
    assert (joining.end(), inviting.end()) == (0, 0)
    [operator] = pi.json("group", "operators")
    assert (operator["label"], operator["origin"], operator["by"]) == ("barn", "invite", barn.author[:8])
    run_agent(pi)
    barn.ok("setting", "set", "app.mode", "eco")

    def obeyed() -> bool:
        return [each["value"] for each in pi.json("setting", "get")] == ["eco"]

    wait_until(obeyed, "the new device does what the operator wants")


def test_a_member_is_not_paired_again(
    broker: Broker, barn: Gateway, new_gateway: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    run_agent(barn)
    pi = new_gateway("pi")
    barn.invite(pi)
    inviting = start(barn, "invite", "--yes")
    code = inviting.document()["code"]
    assert "already in that group" in pi.fails("join", code, code=1)
    while "ended" not in (shown := inviting.document()):
        assert shown["verifier"]
    assert (shown, inviting.end()) == ({"ended": "left"}, 1)


@pytest.mark.parametrize("agent", [True, False])
def test_a_uri_lets_in_who_has_no_account(
    agent: bool, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.14
    pi = fresh("pi")
    if agent:
        run_agent(barn)
        uri = barn.ok("invite", "--no-wait")
        inviting = None
    else:
        inviting = start(barn, "invite")
        uri = inviting.document()["uri"]
    shown = [json.loads(line) for line in pi.ok("join", "-", "--json", feed=uri).splitlines()]
    assert (shown[0]["inviter"], len(shown[0]["verifier"])) == (barn.author[:8], 4)
    assert {member["signing_public"] for member in shown[1]["members"]} == {barn.author, pi.author}
    if inviting is not None:
        assert inviting.document()["verifier"] == shown[0]["verifier"]
        assert inviting.document() == {"joined": pi.author[:8], "label": "pi"}


def test_both_meet_over_tls_and_the_authority_travels(
    tmp_path: Path, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    chain, key = make_certificate(tmp_path / "certificate", -1, 1)
    with Broker(tmp_path / "tls", certificate=(chain, key)) as broker:
        barn, pi = Gateway(tmp_path, "barn"), fresh("pi")
        password = broker.add_device(barn.account)
        barn.ok("relay", "set", broker.url, "--ca-file", str(chain), "--password-file", "-", feed=password)
        barn.ok("group", "create")
        pid_file = tmp_path / "mosquitto.pid"
        pid_file.write_text(str(broker.pid))
        barn.ok("config", "set", "broker.password_file", str(tmp_path / "tls" / "passwords"))
        barn.ok("config", "set", "broker.pid_file", str(pid_file))
        inviting = start(barn, "invite", "--yes")
        code = inviting.document()["code"]
        pi.ok("join", code, "--relay", broker.url, "--ca-file", str(chain))
        assert inviting.end() == 0
        kept = Path(pi.json("relay")[0]["ca_file"])
        assert kept == pi.state / "relay-ca.pem"
        assert kept.read_text() == chain.read_text()


def test_a_restart_between_ceremony_and_admission_changes_nothing(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.16
    pi = fresh("pi")
    inviting = start(barn, "invite", "--yes")
    code = inviting.document()["code"]
    assert pi.covey("join", code, "--relay", broker.url, "--timeout", "0").returncode == 124
    pi.start("run")
    assert inviting.end() == 0
    wait_until(lambda: '"members"' in pi.covey("group", "show", "--json").stdout, "the group arrives")
    assert members(pi) == {barn.author, pi.author}


def test_a_declined_joiner_gets_nothing(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.15
    pi = fresh("pi")
    inviting = start(barn, "invite")
    joining = start(pi, "join", inviting.document()["code"], "--relay", broker.url)
    joining.document()
    inviting.document()
    inviting.says("n")
    assert (joining.document(), joining.end()) == ({"ended": "declined"}, 1)
    assert (inviting.document(), inviting.end()) == ({"ended": "declined"}, 1)
    assert "error: the other side declined" in joining.errors.read_text()
    assert not (pi.state / "relay.password").exists()
    assert pi.json("relay") == []
    assert members(barn) == {barn.author}


def test_a_wrong_guess_is_reported_and_does_not_end_the_code(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    run_agent(barn)
    inviting = start(barn, "invite")
    code = inviting.document()["code"]
    number, first, second, third, enrolment = code.split("-")
    wrong = f"{number}-{first}-{second}-{'abandon' if third != 'abandon' else 'ability'}-{enrolment}"
    guesser = fresh("guess")
    shutil.rmtree(guesser.state)  # a machine that is no device yet
    guessing = start(guesser, "join", wrong, "--relay", broker.url)
    wait_until(
        lambda: "the other side reports: the code is wrong" in guessing.errors.read_text(), "the guesser hears it"
    )
    assert guessing.interrupt() == 130
    assert not guesser.state.exists()
    assert "1 wrong codes" in barn.log.read_text()
    pi = fresh("pi")
    start(pi, "join", code, "--relay", broker.url)  # a code that was mistyped once is still good
    assert inviting.document()["joiner"] == pi.author[:8]


def test_strangers_at_the_rendezvous_end_no_pairing(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    """What burnt a code, 38 bytes, and what ended a joiner, a refusal that anybody may write."""
    run_agent(barn)
    inviting = start(barn, "invite", "--yes")
    code = inviting.document()["code"]
    number = code.split("-")[0]
    ours, theirs = (f"covey/1/pair/{number}/{side}" for side in "ab")
    username = secrets.token_hex(16)
    eve = Client(broker, "", username, broker.add_device(username))
    for _ in range(3):
        eve.publish(ours, to_wire(Offer(secrets.token_bytes(32), Password.CODE)))
    eve.subscribe(ours)
    pi = fresh("pi")
    joining = start(pi, "join", code, "--relay", broker.url)
    session = from_wire(eve.next_message()[1]).session  # of the joiner: who has an account may read it, and answer
    for reason in Reason:
        eve.publish(theirs, to_wire(Refusal(session, reason)))
    assert inviting.document()["joiner"] == pi.author[:8]
    assert joining.document()["inviter"] == barn.author[:8]
    assert (joining.end(), inviting.end()) == (0, 0)
    eve.close()


def test_the_inviter_takes_its_code_back(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    pi = fresh("pi")
    for cancel in ("interrupt without an agent", "command", "interrupt"):
        if cancel == "command":
            run_agent(barn)
        inviting = start(barn, "invite")
        joining = start(pi, "join", inviting.document()["code"], "--relay", broker.url)
        joining.document()
        inviting.document()
        if cancel == "command":
            assert barn.json("invite", "--cancel") == {"cancelled": 1}
            assert (inviting.document(), inviting.end()) == ({"ended": "cancelled"}, 1)
        else:
            assert inviting.interrupt() == 130
        assert (joining.document(), joining.end()) == ({"ended": "cancelled"}, 1)
    assert barn.json("invite", "--cancel") == {"cancelled": 0}


def test_nobody_to_ask(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    inviting = start(barn, "invite")
    code = inviting.document()["code"]
    assert inviting.process.stdin is not None
    inviting.process.stdin.close()
    pi = fresh("pi")
    assert pi.covey("join", code, "--relay", broker.url).returncode == 1
    assert inviting.end() == 1
    assert "no answer on stdin" in inviting.errors.read_text()


_WORRIES_SOON = (
    "import sys; from covey.app.pairing import joining; joining._NOBODY_YET_US = 200_000; "
    "from covey.cli.main import main; sys.exit(main())"
)


def test_a_joiner_that_finds_nobody_says_so_and_keeps_looking(  # ten minutes, which are not waited in silence
    broker: Broker, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    code = f"42-abandon-zoo-river-{broker.enrolment_password}"
    joining = start(fresh("pi"), "join", code, "--relay", broker.url, program=(sys.executable, "-c", _WORRIES_SOON))
    said = "no answer yet; check the code and the relay"
    wait_until(lambda: said in joining.errors.read_text(), "it is told")
    assert joining.process.poll() is None
    assert joining.interrupt() == 130
    assert joining.errors.read_text().count("no answer yet") == 1


_LEAVES_SOON = (
    "import sys; from covey.app.pairing import joining; joining._DESERTED_US = 0; "
    "from covey.cli.main import main; sys.exit(main())"
)


def test_a_device_with_a_used_code_ends_soon(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    """The relay says that nobody listens where the code led: no device waits ten minutes there."""
    barn.start("run")
    code = barn.json("invite", "--no-wait", "--yes")["code"]
    assert start(fresh("one"), "join", code, "--relay", broker.url).end() == 0
    late = start(fresh("two"), "join", code, "--relay", broker.url, program=(sys.executable, "-c", _LEAVES_SOON))
    assert late.end() == 1
    said = late.errors.read_text()
    assert "error: no device waits for this code: it was used or cancelled, or its ten minutes are over\n" in said
    assert "hint: ask for a new code: covey invite" in said


def test_a_joiner_waits_no_longer_than_its_timeout(broker: Broker, fresh: Callable[[str], Gateway]) -> None:
    """Its code may be used by now, or mistyped."""
    code = f"42-abandon-zoo-river-{broker.enrolment_password}"
    said = fresh("pi").fails("join", code, "--relay", broker.url, "--timeout", "2", code=124)
    assert "the other device has not answered in 2 s" in said


def test_two_pair_at_a_time(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    """They take the enrolment account from each other, and get on nevertheless."""
    barn.start("run")
    codes = [barn.json("invite", "--no-wait", "--yes")["code"] for _ in range(2)]
    devices = [fresh("one"), fresh("two")]
    joining = [start(device, "join", code, "--relay", broker.url) for device, code in zip(devices, codes, strict=True)]
    assert [each.end() for each in joining] == [0, 0]
    assert members(barn) == {barn.author, *(device.author for device in devices)}


def test_a_joiner_that_goes_ends_it_at_once(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    inviting = start(barn, "invite")
    joining = start(fresh("pi"), "join", inviting.document()["code"], "--relay", broker.url)
    joining.document()
    inviting.document()
    assert joining.interrupt() == 130
    assert (inviting.document(), inviting.end()) == ({"ended": "left"}, 1)


def test_an_agent_that_ends_leaves_no_half_pairing(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    run_agent(barn)
    inviting = start(barn, "invite")
    joining = start(fresh("pi"), "join", inviting.document()["code"], "--relay", broker.url)
    joining.document()
    inviting.document()
    barn.end()
    assert (joining.document(), joining.end()) == ({"ended": "cancelled"}, 1)
    assert (inviting.document(), inviting.end()) == ({"ended": "interrupted"}, 1)


def test_an_account_that_nobody_comes_with_is_taken_away(
    tmp_path: Path, broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    pi, passwords = fresh("pi"), tmp_path / "broker" / "passwords"
    run_agent(barn)
    inviting = start(barn, "invite", "--yes")
    code = inviting.document()["code"]
    os.kill(inviting.process.pid, signal.SIGSTOP)
    joining = start(pi, "join", code, "--relay", broker.url, "--timeout", "0")
    joining.document()
    wait_until(lambda: pi.account in passwords.read_text(), "it has an account")
    joining.process.kill()
    broker.stop()  # before it has come with it
    os.kill(inviting.process.pid, signal.SIGCONT)
    barn.ok("invite", "--cancel")
    wait_until(lambda: pi.account not in passwords.read_text(), "the account is gone")
    assert barn.account in passwords.read_text()


def test_a_fleet_ca_gives_certificates(
    tmp_path: Path, broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    barn.ok("broker", "init", "--ca", str(tmp_path / "ca"))
    barn.ok("config", "unset", "broker.password_file")
    barn.ok("config", "set", "broker.ca_folder", str(tmp_path / "ca"))
    pi = fresh("pi")
    inviting = start(barn, "invite", "--yes")
    code = inviting.document()["code"]
    shared = tmp_path / "shared"  # whose authority is not the password file does not know it
    shared.write_text(broker.enrolment_password)
    words = ("--relay", broker.url, "--timeout", "0", "--enrolment-password-file", str(shared))
    assert pi.covey("join", code, *words).returncode == 124
    bundle = pi.state / "relay.pem"
    assert bundle.stat().st_mode & 0o777 == 0o600
    folder = StateFolder.at(pi.state)
    [account] = accounts(folder, folder.configuration.config(), folder.identity())
    assert account.client is not None
    assert account.client.bundle.count(b"-----BEGIN ") == 2
    assert b"-----BEGIN " not in bundle.read_bytes()
    assert pi.json("relay")[0]["client_certificate"].endswith("/relay.pem")


def test_a_device_of_another_relay_gets_an_account_at_this_one(
    tmp_path: Path, broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    pi = fresh("pi")
    pi.ok("relay", "set", "mqtt://127.0.0.1:1", "--password-file", "-", feed="of another relay")
    inviting = start(barn, "invite", "--yes")
    pi.ok("join", inviting.document()["code"], "--relay", broker.url)
    assert inviting.end() == 0
    assert pi.json("relay")[0]["url"] == broker.url


def test_a_relay_that_hears_of_the_account_later(
    broker: Broker, barn: Gateway, fresh: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:
    barn.ok("config", "unset", "broker.pid_file")  # somebody else has it read the file again
    pi = fresh("pi")
    inviting = start(barn, "invite", "--yes")
    joining = start(pi, "join", inviting.document()["code"], "--relay", broker.url)
    wait_until(lambda: "waiting until it knows the new account" in joining.errors.read_text(), "it was refused")
    broker.reload()
    assert (joining.end(), inviting.end()) == (0, 0)
    assert "warning" not in joining.errors.read_text(), "nothing is amiss"


def test_a_relay_without_the_enrolment_account(tmp_path: Path, broker: Broker, fresh: Callable[[str], Gateway]) -> None:
    write_account(tmp_path / "broker" / "passwords", "enrol", None)
    broker.reload()
    said = fresh("pi").fails("join", "42-abandon-zoo-river", "--relay", broker.url, code=1)
    assert "refuses the enrolment account" in said
    assert "type the whole code" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("42-otter",), "neither an invite URI nor an invite code"),
        (("0-abandon-zoo-river",), "neither an invite URI nor an invite code"),
        (("42-abandon-river-fernn",), "'fernn' is not a word of a code"),
        (("covey://join/1/x",), "damaged"),
    ],
)
def test_mistyped_codes(fresh: Callable[[str], Gateway], words: tuple[str, ...], said: str) -> None:
    pi = fresh("pi")
    shutil.rmtree(pi.state)
    assert said in pi.fails("join", *words, "--relay", "mqtt://127.0.0.1:1", code=1)
    assert not pi.state.exists()


def test_a_device_addressed_in_an_unknown_group_asks_for_an_invitation(
    barn: Gateway, new_gateway: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.82
    pi = new_gateway("pi")
    barn.start("run")
    barn.invite(pi)
    pi.start("run")
    further = barn.json("group", "create")["group_id"]
    keys = pi.json("key", "show")
    barn.ok("group", "add", keys["signing_key"], keys["noise_key"], "--group", further)
    wait_until(lambda: any(each["state"] == "addressed" for each in pi.json("request")), "pi sees that it is addressed")
    [addressed] = pi.json("request")
    assert (addressed["group_id"], addressed["author"], addressed["asked_at_us"]) == (further, barn.author, 0)
    assert f"covey request ask {further[:8]}" in pi.ok("request")
    assert pi.json("request", "ask", further[:8]) == {"asked": further, "member": barn.author}
    wait_until(lambda: any(each["state"] == "waiting" for each in pi.json("request")), "the invitation is here")
    assert pi.json("request", "accept")["group_id"] == further
    assert "no member has addressed" in pi.fails("request", "ask", code=1)

    third = barn.json("group", "create")["group_id"]
    assert "no such invitation or request" in barn.fails("request", "decline", third, code=1)


def test_invitations_to_a_further_group(
    barn: Gateway, new_gateway: Callable[[str], Gateway], start: Callable[..., Process]
) -> None:  # accepts: 003.12, 003.17, 003.18, 003.19, 003.20, 003.58
    pi = new_gateway("pi")
    barn.start("run")
    barn.invite(pi)
    first = barn.json("group", "show")["group_id"]
    second, third = (barn.json("group", "create")["group_id"] for _ in range(2))
    for group_id in (second, third):
        assert barn.json("invite", "--to", "pi", "--group", group_id, "--no-wait") == {
            "invited": pi.author[:8],
            "group_id": group_id,
        }
    pi.start("run")
    wait_until(lambda: len(pi.json("request")) == 2, "both invitations are here")
    assert {each["group_id"] for each in pi.json("request")} == {second, third}
    assert {(each["inviter"], each["label"]) for each in pi.json("request")} == {(barn.author, "barn")}
    assert "barn" in pi.ok("request")
    assert pi.json("status")["waiting_invitations"] == 2
    assert "2 invitations to answer: covey request" in pi.ok("status")
    assert "2 groups match" in pi.fails("request", "accept", code=2)
    assert pi.json("request", "decline", third) == {"declined": third}
    assert pi.json("request", "accept", second)["group_id"] == second
    assert pi.json("request") == []  # it has come, so nothing is synchronised any more
    assert "no such invitation" in pi.fails("request", "accept", third, code=1)
    assert "already in that group" in barn.fails("invite", "--to", "pi", "--group", first, code=1)
    assert "0 devices" in barn.fails("invite", "--to", "nobody", "--group", first, code=2)
    assert {group["group_id"] for group in pi.json("status")["groups"]} == {first, second}
    barn.ok("invite", "--to", "pi", "--group", third, "--no-wait")
    wait_until(lambda: barn.queued() == 0, "it has come again")
    assert pi.json("request") == [], "a declined group stays declined"
    assert [each["group_id"] for each in pi.json("request", "list", "--declined")] == [third]
    assert third[:8] in pi.ok("request", "list", "--declined")
    assert pi.json("request", "reconsider", third[:8]) == {"reconsidered": third}
    assert "no such group" in pi.fails("request", "reconsider", code=1)
    assert [each["group_id"] for each in pi.json("request")] == [third], "what came meanwhile"
    barn.end()
    pi.ok("request", "accept", "--no-wait")
    [syncing] = pi.json("request")
    assert (syncing["group_id"], syncing["inviter"], syncing["state"]) == (third, barn.author, "syncing")
    assert pi.json("group", "show", "--group", third[:8]) == syncing
    assert "invited by" in pi.ok("group", "show", "--group", third[:8])
    assert "is still syncing" in pi.fails("group", "members", "--group", third[:8], code=1)
    assert "manifest" in syncing["missing"]
    assert f"syncing  {third[:8]}, invited by" in pi.ok("request")
    barn.start("run")  # the inviter is back
    wait_until(lambda: len(pi.json("status")["groups"]) == 3, "pi is in the third group")


def test_a_member_cannot_put_its_invitation_in_the_place_of_anothers(
    barn: Gateway, new_gateway: Callable[[str], Gateway]
) -> None:
    pi, mal = new_gateway("pi"), new_gateway("mal")
    barn.start("run")
    for each in (pi, mal):
        barn.invite(each)
        each.start("run")
    further = barn.json("group", "create")["group_id"]
    barn.ok("invite", "--to", "mal", "--group", further, "--no-wait")
    wait_until(lambda: mal.json("request"), "mal is invited")
    assert mal.json("request", "accept")["group_id"] == further
    wait_until(lambda: len(barn.json("group", "members", "--group", further)) == 2, "barn knows")
    for each in (barn, mal):
        each.ok("invite", "--to", "pi", "--group", further, "--no-wait")
    wait_until(lambda: len(pi.json("request")) == 2, "both invitations are here")
    refused = pi.fails("request", "accept", further, code=2)
    assert "2 members have sent one for this group" in refused
    assert "--from DEVICE" in refused
    assert "no such invitation" in pi.fails("request", "accept", further, "--from", "pi", code=1)
    mal.end()
    assert pi.json("request", "accept", further, "--from", "barn")["group_id"] == further


def test_a_person_declines_a_device_that_asks(barn: Gateway, new_gateway: Callable[[str], Gateway]) -> None:
    pi, mal = new_gateway("pi"), new_gateway("mal")
    barn.start("run")
    for each in (pi, mal):
        barn.invite(each)
        each.start("run")
    further = pi.json("group", "create")["group_id"]
    keys = mal.json("key", "show")
    pi.ok("group", "add", keys["signing_key"], keys["noise_key"], "--group", further)
    wait_until(lambda: mal.json("request"), "mal is addressed")
    pi.ok("group", "remove", mal.author, "--group", further, "--yes")
    mal.ok("request", "ask", further)
    wait_until(lambda: pi.json("request"), "pi sees that mal asks")
    assert f"covey invite --to {mal.author[:8]}" in pi.ok("request")
    assert "further requests of theirs stay hidden" in pi.ok("request", "decline", further)
    assert pi.json("request") == []
    pi.ok("invite", "--to", "mal", "--group", further, "--no-wait")
    wait_until(lambda: any(each["state"] == "waiting" for each in mal.json("request")), "mal is invited all the same")
