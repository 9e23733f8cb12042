"""`covey vault` and `covey check` name devices as people do: by what they are called, beside their keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import device_name, key_text
from tests.command import Here
from tests.fleet import identity

LEE = identity("lee")


@pytest.mark.slow
def test_the_writer_of_a_node_is_named_by_its_label(tmp_path: Path) -> None:
    device = Here(tmp_path, "hub")
    device.ok("group", "create")
    device.ok("vault", "init")
    (node,) = device.json("vault", "status")["nodes"]
    assert node["label"] == "hub"
    assert f"{node['device']} hub" in device.ok("vault", "status")
    keys = [key_text("sign", LEE.signing_public), key_text("noise", LEE.noise_public)]
    device.ok("group", "add", *keys, "--label", "lee")
    assert f"1 not seen yet ({device_name(LEE.signing_public)} lee)" in device.covey("check").stdout


def test_a_reader_is_made_only_of_a_copy_of_the_keys(tmp_path: Path) -> None:
    reported = Here(tmp_path, "hub").fails("vault", "new-reader", str(tmp_path / "reader.key"), code=78)
    assert "hint: on a collector: covey vault export-key reader.key" in reported
