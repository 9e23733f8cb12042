"""What the tests of `covey conformance` share: how it is run, and the devices that it tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from covey.app.conformance.testing import check_device
from tests import warm_covey
from tests.meta.source_tree import ROOT
from tests.proof import begins

LONGEST_S = 500
COVEY = (sys.executable, "-P", "-m", "covey.cli.main")
DEVICE = (sys.executable, "-P", "-m", "tests.integration.tested_device")
BOARD = (sys.executable, "-P", "-m", "tests.integration.tested_board")
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def check_agent(role: str) -> tuple[int, dict[str, Any]]:
    """Test the agent; return the exit code and the document."""
    return result_of(role, device_of(role))


def device_of(role: str) -> list[str]:
    if role == "board":
        return [*BOARD, "{state}", "{line}"]
    return [*DEVICE, role, "{state}", "{invite}", *(["line={line}"] if role == "gateway" else [])]


def result_of(role: str, device: Sequence[str], wait_s: int = 30) -> tuple[int, dict[str, Any]]:
    words = ("conformance", "--role", role, "--timeout", str(wait_s), "--json", "--", *device)
    done = warm_covey.run(words, environment=ENVIRONMENT, folder=ROOT)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def sentences(document: dict[str, Any], verdict: str) -> dict[str, str]:
    return {each["check"]: each["seen"] for each in document["checks"] if each["verdict"] == verdict}


def name_mistakes(
    monkeypatch: pytest.MonkeyPatch, role: str, breaks: Sequence[str], expected: Mapping[str, str]
) -> None:
    """Check that a test of some checks names the mistakes of a device; the others would wait as long as they may."""
    begins()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    found = check_device(role, "127.0.0.1:0", [*device_of(role), *breaks], 12, lambda _: None, only=list(expected))
    assert not found.conformant
    failed = sentences(found.document(), "fail")
    wrong = {check: failed.get(check, "") for check in expected if expected[check] not in failed.get(check, "")}
    assert wrong == {}, found.document()
