"""`covey conformance` against the second implementation."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.conformance_runs import result_of, sentences
from tests.meta.source_tree import ROOT


@pytest.mark.processes
@pytest.mark.parametrize("role", ["sensor", "member", "collector"])
def test_the_second_implementation_passes(role: str) -> None:
    node = shutil.which("node")
    assert node, "the second device needs Node 18 or later: apt install nodejs"
    words = [node, str(ROOT / "tests/outside/device/device.js"), "--state", "{state}", "--invite", "{invite}"]
    words += ["--count", "1000000", "--every", "300", "--obey-invite", "--action", "true=true"]
    code, document = result_of(role, words)
    assert sentences(document, "fail") == {}
    mandatory = {each["check"] for each in document["checks"] if each["mandatory"]}
    assert mandatory & sentences(document, "not seen").keys() == set()
    assert (code, document["conformant"]) == (0, True)
