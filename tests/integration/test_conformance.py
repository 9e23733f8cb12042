"""`covey conformance` against Covey's own agent, as it is and with rules broken, and the second implementation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from covey.app.conformance.checks import ROLES
from covey.app.conformance.testing import STEPS, check_device
from tests.meta.source_tree import ROOT

_LONGEST_S = 500
_COVEY = (sys.executable, "-P", "-m", "covey.cli.main")
_DEVICE = (sys.executable, "-P", "-m", "tests.integration.tested_device")
_BOARD = (sys.executable, "-P", "-m", "tests.integration.tested_board")
_ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def _tested(role: str, *breaks: str, wait_s: int = 30) -> tuple[int, dict[str, Any]]:
    """Test the agent; return the exit code and the document."""
    return _result(role, [*_device(role), *breaks], wait_s)


def _device(role: str) -> list[str]:
    if role == "board":
        return [*_BOARD, "{state}", "{line}"]
    return [*_DEVICE, role, "{state}", "{invite}", *(["line={line}"] if role == "gateway" else [])]


def _result(role: str, device: Sequence[str], wait_s: int) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [
            *(*_COVEY, "conformance", "--role", role, "--timeout", str(wait_s), "--json", "--"),
            *device,
        ],
        cwd=ROOT,
        env=_ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _sentences(document: dict[str, Any], verdict: str) -> dict[str, str]:
    return {each["check"]: each["seen"] for each in document["checks"] if each["verdict"] == verdict}


@pytest.mark.processes
@pytest.mark.parametrize("role", ROLES)
def test_covey_passes_its_own_test(role: str) -> None:
    """The operator joins by a code, all others by a URI."""
    by_code = [*_DEVICE, role, "{state}", "{code}", "relay={relay}"]
    code, document = _result(role, by_code, 30) if role == "operator" else _tested(role)
    assert _sentences(document, "fail") == {}
    assert (code, document["conformant"], document["role"]) == (0, True, role)
    assert len(document["device"]) == 64
    assert ("code" in _sentences(document, "pass")) == (role == "operator")
    optional = {each["check"] for each in document["checks"] if not each["mandatory"]}
    assert set(_sentences(document, "not seen")) <= optional


@pytest.mark.processes
@pytest.mark.parametrize("role", ["sensor", "member", "collector"])
def test_the_second_implementation_passes(role: str) -> None:
    node = shutil.which("node")
    assert node, "the second device needs Node 18 or later: apt install nodejs"
    words = [node, str(ROOT / "tests/outside/device/device.js"), "--state", "{state}", "--invite", "{invite}"]
    words += ["--count", "1000000", "--every", "300", "--obey-invite", "--action", "true=true"]
    code, document = _result(role, words, 30)
    assert _sentences(document, "fail") == {}
    assert (code, document["conformant"]) == (0, True)


_ADDING, _LOSING = "adding another member", "losing acknowledgements"
_APPOINTING, _SETTING = "making the device an operator", "having it set something"
_NEEDING_TWO = "giving an order that needs two operators"
_GREETING, _PUSHING = "greeting the mailbox", "pushing and pulling blobs"
_MEETING, _LETTING_IN = "meeting the gateway on its line", "letting the board into the group"
_MEETING_BOARD, _ORDERING_BOARD = "meeting the board on its line", "ordering something of the board"
_SLEEPING = "letting the board sleep"
_ASKING = "asking the mailbox for what it must refuse"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("role", "breaks", "steps", "expected"),
    [
        (
            "sensor",
            ("subscribes-to-everything", "starts-clean", "ignores-even-keys"),
            (_ADDING, "using unknown extension keys"),
            {
                "subscription": "it subscribed to '#', which is not its own inbox",
                "session": "it asked for Clean Start 1, which throws away what waits for it and a Session Expiry of "
                "3600 s; the section wants 0 and 604800 s",
                "even-key": "it took a message with an unknown even extension key as if it had understood it",
            },
        ),
        (
            "sensor",
            ("resends-under-a-new-number",),
            (_LOSING,),
            {"batch-numbers": "and again under", "resends": "it did not send link-seq"},
        ),
        (
            "sensor",
            ("resends-other-bytes",),
            (_LOSING,),
            {"one-message": "it sent two different messages as link-seq"},
        ),
        (
            "sensor",
            ("forgets-on-puback",),
            (_LOSING, "forging acknowledgements", "killing the device while a batch waits"),
            {
                "resends": "it did not send link-seq",
                "stranger-ack": "it never came again",
                "killed": "was not acknowledged, and is gone after SIGKILL",
            },
        ),
        (
            "sensor",
            ("verifies-no-signature", "frees-without-imprints"),
            ("forging acknowledgements", _ADDING, "forging messages"),
            {
                "forged-message": "it took a message that another key signed",
                "forged-ack": "on an acknowledgement with a forged signature: it never came again",
                "imprint-ack": "on an acknowledgement that covers it without its imprint: it never came again",
            },
        ),
        (
            "operator",
            ("signs-one-number-twice", "obeys-one-operator", "writes-to-boards"),
            (_ADDING, _APPOINTING, _SETTING, "having it give commands", _NEEDING_TWO, "counting its operations"),
            {
                "log": "it signed two different operations with number",
                "threshold": "it obeyed an order that one operator has signed, where its owner demands two",
                "spares-boards": "it sent OPERATIONS to a board, which knows neither groups nor their orders",
            },
        ),
        (
            "operator",
            ("gives-one-once-id", "follows-its-own-log"),
            (_ADDING, _APPOINTING, _SETTING, "having it give commands"),
            {
                "once-ids": "it gave two commands one once-id",
                "follows": "its order does not follow a note that it had heard before",
                "counts": "its order does not count though another operator has approved it",
            },
        ),
        (
            "mailbox",
            ("keeps-deleted-blobs", "reports-who-pulled", "keeps-for-strangers", "lets-one-sender-fill-it"),
            (_ADDING, _GREETING, _PUSHING, "deleting blobs", _ASKING, "filling the mailbox"),
            {
                "deletes": "it handed out a blob again that its recipient had deleted",
                "discreet": "it sent Notify to the sender when the recipient asked",
                "refuses": "it sent no ERROR about a blob for a device that is not in the group",
                "shares": "and then had no room for the first one of another member",
            },
        ),
        (
            "mailbox",
            ("deletes-what-was-pulled", "forgets-blobs-at-start"),
            (_ADDING, _GREETING, _PUSHING, "killing the mailbox after an acknowledgement"),
            {
                "keeps": "it handed out two blobs, and has only 0 of them when it is asked again",
                "durable": "after SIGKILL it lacks a blob that it had acknowledged",
            },
        ),
        (
            "mailbox",
            ("shows-every-inbox",),
            (_ADDING, _GREETING, _PUSHING, "touching another device's inbox"),
            {"own-inbox": "it handed out blobs of another device's inbox"},
        ),
        (
            "gateway",
            ("carries-each-counter-once", "wakes-boards", "believes-any-proof"),
            (_ADDING, _MEETING, _LETTING_IN, _SLEEPING, "restarting the board"),
            {
                "repeats": "it did not forward a link envelope with counter 1",
                "sleepers": "it handed something down to a board that slept",
                "proof": "it answered an IDENTIFY whose proof another key signed",
            },
        ),
        (
            "gateway",
            ("ignores-what-the-board-takes",),
            (_ADDING, _MEETING, _LETTING_IN, "sending envelopes for the board"),
            {
                "line-bounds": "fragments ahead of a window of 2",
                "board-bounds": "the board takes messages of 1024",
            },
        ),
        (
            "gateway",
            ("acknowledges-frames-early",),
            (_ADDING, _MEETING, _LETTING_IN, "killing the gateway after an acknowledgement on the line"),
            {"commits": "it had acknowledged an envelope on the line, and lost it by SIGKILL"},
        ),
        (
            "board",
            ("follows-every-gateway", "obeys-anybody"),
            (_MEETING_BOARD, "enrolling the board", _ORDERING_BOARD),
            {
                "operators": "it obeyed the order of a member that its enrolment did not name as an operator",
                "one-collector": "it followed a second ENROL to another collector",
            },
        ),
        (
            "board",
            ("frees-on-any-acknowledgement", "keeps-its-incarnation"),
            (_MEETING_BOARD, "enrolling the board", "acknowledging falsely", "killing the board"),
            {
                "resends": "it freed it on the line's acknowledgement, or on a false one",
                "one-message": "it sent two different messages as link-seq",
            },
        ),
        (
            "board",
            ("proves-nothing",),
            (_MEETING_BOARD,),
            {"identifies": "the proof in its IDENTIFY does not verify"},
        ),
    ],
)
def test_each_mistake_is_named(
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    breaks: tuple[str, ...],
    steps: tuple[str, ...],
    expected: dict[str, str],
) -> None:
    """By the steps that show it: those that a mistake spoils wait as long as they may."""
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    taken = [each for each in STEPS[role] if each[1] in steps]
    assert len(taken) == len(steps)
    device = [*_device(role), *breaks]
    tested = check_device(role, "127.0.0.1:0", device, 12, lambda _: None, steps=taken)
    assert not tested.conformant
    failed = _sentences(tested.document(), "fail")
    wrong = {check: failed.get(check, "") for check in expected if expected[check] not in failed.get(check, "")}
    assert wrong == {}, tested.document()


@pytest.mark.processes
def test_the_mistakes_of_a_member_are_named() -> None:
    code, document = _tested("member", "says-nothing-of-groups", "obeys-nobody", wait_s=12)
    assert code == 1
    failed = _sentences(document, "fail")
    assert failed["heads"] == "its acknowledgements carry no digest of the shared groups"
    assert failed["setting"].startswith("it sent no SETTING_REPORT about app.conformance")
    assert failed["order"].startswith("it wrote no operation of kind `obeying`")
    assert {"history", "conflict", "removal"} <= failed.keys()
    assert not failed.keys() & {"telemetry", "resends", "killed"}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("breaks", "expected"),
    [
        (("lands-nothing",), {"lands": "a collector acknowledges when it has landed"}),
        (("acknowledges-over-gaps",), {"gaps": "it acknowledged a batch that has not come"}),
        (
            ("waits-for-lost-messages", "verifies-no-signature", "forgets-at-start"),
            {
                "losses": "it still waits for a message that a LOSS names",
                "forged-batch": "it acknowledged a batch that another key signed",
                "durable": "and forgot it by SIGKILL",
            },
        ),
    ],
)
def test_each_mistake_of_a_collector_is_named(breaks: tuple[str, ...], expected: dict[str, str]) -> None:
    code, document = _tested("collector", *breaks, wait_s=12)
    assert (code, document["conformant"]) == (1, False)
    failed = _sentences(document, "fail")
    wrong = {check: failed.get(check, "") for check in expected if expected[check] not in failed.get(check, "")}
    assert wrong == {}, document["checks"]


@pytest.mark.processes
def test_a_person_starts_and_kills_the_device(tmp_path: Path) -> None:
    device: list[subprocess.Popen[bytes]] = []

    def start(invite: str) -> None:
        words = [*_DEVICE, "sensor", str(tmp_path / "state"), invite]
        device.append(subprocess.Popen(words, cwd=ROOT, env=_ENVIRONMENT, stdout=subprocess.DEVNULL))

    words = [*_COVEY, "conformance", "--listen", "127.0.0.1:0", "--timeout", "30", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as test:
        assert test.stdout is not None
        assert test.stderr is not None
        try:
            invite = ""
            for line in test.stderr:
                if "with this invite: " in line:
                    invite = line.rpartition(" ")[2].strip()
                    start(invite)
                elif line.startswith("kill the device now"):
                    device[0].kill()
                    device[0].wait()
                    start(invite)
            document = json.load(test.stdout)
        finally:
            test.kill()
            for each in device:
                each.kill()
                each.wait()
    assert len(device) == 2
    assert _sentences(document, "fail") == {}
    assert document["conformant"]


@pytest.mark.processes
def test_the_last_words_of_a_program_that_ends_at_once_are_printed() -> None:
    words = ("conformance", "--", "/bin/sh", "-c", "echo cannot read my settings; exit 3")
    done = subprocess.run(
        [*_COVEY, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "its program ended before the test was over" in done.stdout
    assert "cannot read my settings" in done.stderr


@pytest.mark.processes
def test_a_program_that_is_not_there_is_an_error_with_a_hint() -> None:
    words = ("conformance", "--", "/no/such/program")
    done = subprocess.run(
        [*_COVEY, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=_LONGEST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: cannot start /no/such/program" in done.stderr
    assert "hint: after --" in done.stderr
