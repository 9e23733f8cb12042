"""The error tree: one class for each rule, one stable code for each class, all of them written down."""

from __future__ import annotations

import re

from covey import errors
from tests.meta.source_tree import ROOT, sources


def _classes() -> list[type[errors.CoveyError]]:
    return [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.CoveyError)]


def test_every_class_has_a_code_of_its_own_and_says_what_it_is() -> None:
    codes = [each.__dict__.get("code") for each in _classes()]
    assert None not in codes
    assert len(codes) == len(set(codes))
    assert all(each.__doc__ for each in _classes())


def test_exit_codes_are_the_documented_ones() -> None:
    assert {each.exit_code for each in _classes()} == {1, 2, 78, 124}


def test_the_protocol_lists_every_remote_code() -> None:
    text = (ROOT / "docs/protocol/registry.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    remote = {each.code for each in _classes() if issubclass(each, errors.RemoteError)} - {"remote"}
    assert remote <= written


def test_every_class_is_used() -> None:
    names = {each.__name__ for each in _classes()} - {"CoveyError"}
    text = "".join(
        source.path.read_text(encoding="utf-8")
        for source in sources("agent", "spark_ingest", "broker_conf", "firmware_bridge", "demo")
        if source.module != "covey.errors"
    )
    defined = (ROOT / "agent/covey/errors.py").read_text(encoding="utf-8")
    used = set(re.findall(r"\w+", text)) | set(re.findall(r"\((\w+)\)", defined))
    assert names <= used
