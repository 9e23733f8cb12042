"""What commands change in groups, as a person uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.groups.groups import found_collectors_group
from covey.core.crypto import Identity
from covey.core.ids import key_text
from covey.errors import LocalError
from tests.command import Here
from tests.fleet import identity


@pytest.fixture
def device(tmp_path: Path) -> Here:
    return Here(tmp_path, "greenhouse")


def test_a_collector_makes_its_group_once(device: Here) -> None:
    for _ in range(2):
        with open_device(find_state(str(device.state))) as opened:
            found_collectors_group(opened)
    [member] = device.json("group", "show")["members"]
    assert member["capabilities"] == ["collector"]


def test_a_gateway_is_not_made_a_collector_by_mistake(device: Here) -> None:
    """`sudo covey collect --new-group` on a gateway once replaced its service."""
    device.ok("group", "create")
    with (
        open_device(find_state(str(device.state))) as opened,
        pytest.raises(LocalError, match="not a collector") as caught,
    ):
        found_collectors_group(opened)
    assert "covey group profile --capability collector" in caught.value.hint
    device.ok("group", "profile", "--capability", "collector")
    with open_device(find_state(str(device.state))) as opened:
        found_collectors_group(opened)


@pytest.mark.slow
def test_a_renamed_device_has_one_name(device: Here) -> None:
    device.ok("group", "create")
    device.ok("group", "profile", "--label", "orchard")
    assert device.json("status")["label"] == "orchard"
    device.ok("own", "create")
    assert {each["label"] for each in device.json("own", "devices")} == {"orchard"}


@pytest.mark.slow
def test_a_label_is_not_taken_for_another_key_that_begins_so(tmp_path: Path) -> None:
    """A member chooses its own label, maybe to be taken for another one."""
    kim, lee, mal = Here(tmp_path, "kim"), identity("lee"), identity("mal")
    group = kim.json("group", "create")["group_id"]
    key = lee.signing_public.hex()
    for member, label in ((lee, "shed"), (mal, key[:8])):
        keys = key_text("sign", member.signing_public), key_text("noise", member.noise_public)
        kim.ok("group", "add", *keys, "--label", label, "--group", group)
    kim.ok("config", "set", "operations.operators", kim.json("key", "show")["signing_key"])
    for words in (
        ("group", "add-operator", key[:8]),
        ("group", "remove", key[:8], "--yes"),
        ("key", "show", key[:8]),
    ):
        refusal = kim.fails(*words, code=1)
        assert "2 members match" in refusal
        assert mal.signing_public.hex()[:8] in refusal
    assert kim.json("key", "show", key[:9])["signing_key"] == _key_of(lee)
    with_full = kim.covey("group", "profile", "--label", key)
    assert with_full.code == 0
    assert kim.json("key", "show", key)["signing_key"] == _key_of(lee), "a whole key is that key's"
    assert kim.json("key", "show", "shed")["signing_key"] == _key_of(lee)


def _key_of(member: Identity) -> str:
    """Return a signing key as people write it."""
    return key_text("sign", member.signing_public)
