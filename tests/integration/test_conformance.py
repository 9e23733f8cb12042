"""`covey conformance` against Covey's own agent, as a program and as a person runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from covey.app.conformance.checks import ROLES
from tests.integration.conformance_runs import COVEY, DEVICE, ENVIRONMENT, LONGEST_S, check_agent, result_of, sentences
from tests.meta.source_tree import ROOT


@pytest.mark.processes
@pytest.mark.parametrize("role", ROLES)
def test_covey_passes_its_own_test(role: str) -> None:
    """The operator joins by a code, all others by a URI."""
    by_code = [*DEVICE, role, "{state}", "{code}", "relay={relay}"]
    code, document = result_of(role, by_code) if role == "operator" else check_agent(role)
    assert sentences(document, "fail") == {}
    assert (code, document["conformant"], document["role"]) == (0, True, role)
    assert len(document["device"]) == 64
    assert ("code" in sentences(document, "pass")) == (role == "operator")
    optional = {each["check"] for each in document["checks"] if not each["mandatory"]}
    assert set(sentences(document, "not seen")) <= optional


@pytest.mark.processes
def test_a_person_starts_and_kills_the_device(tmp_path: Path) -> None:
    device: list[subprocess.Popen[bytes]] = []

    def start(invite: str) -> None:
        words = [*DEVICE, "sensor", str(tmp_path / "state"), invite]
        device.append(subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL))

    words = [*COVEY, "conformance", "--listen", "127.0.0.1:0", "--timeout", "30", "--json", "--only", "killed"]
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
    assert sentences(document, "fail") == {}
    assert list(sentences(document, "pass")) == ["killed"]
    assert (document["passed"], document["conformant"]) == (True, False), "the other checks were not tested"


@pytest.mark.processes
def test_the_last_words_of_a_program_that_ends_at_once_are_printed() -> None:
    words = ("conformance", "--", "/bin/sh", "-c", "echo cannot read my settings; exit 3")
    done = subprocess.run(
        [*COVEY, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "its program ended before the test was over" in done.stdout
    assert "cannot read my settings" in done.stderr


@pytest.mark.processes
def test_a_program_that_is_not_there_is_an_error_with_a_hint() -> None:
    words = ("conformance", "--", "/no/such/program")
    done = subprocess.run(
        [*COVEY, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: cannot start /no/such/program" in done.stderr
    assert "hint: after --" in done.stderr
