"""`covey conformance` against the second implementation, and against a member that breaks rules."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.conformance_runs import check_agent, result_of, sentences
from tests.meta.source_tree import ROOT


@pytest.mark.processes
@pytest.mark.parametrize("role", ["sensor", "member", "collector"])
def test_the_second_implementation_passes(role: str) -> None:
    node = shutil.which("node")
    assert node, "the second device needs Node 18 or later: apt install nodejs"
    words = [node, str(ROOT / "tests/outside/device/device.js"), "--state", "{state}", "--invite", "{invite}"]
    words += ["--count", "1000000", "--every", "300", "--obey-invite", "--action", "true=true"]
    code, document = result_of(role, words, 30)
    assert sentences(document, "fail") == {}
    assert (code, document["conformant"]) == (0, True)


@pytest.mark.processes
def test_the_mistakes_of_a_member_are_named() -> None:
    code, document = check_agent("member", "says-nothing-of-groups", "obeys-nobody", wait_s=12)
    assert code == 1
    failed = sentences(document, "fail")
    assert failed["heads"] == "its acknowledgements carry no digest of the shared groups"
    assert failed["setting"].startswith("it sent no SETTING_REPORT about app.conformance")
    assert failed["order"].startswith("it wrote no operation of kind `obeying`")
    assert {"history", "conflict", "removal"} <= failed.keys()
    assert not failed.keys() & {"telemetry", "resends", "killed"}
