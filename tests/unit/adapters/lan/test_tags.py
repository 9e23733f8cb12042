"""By what peers of a network are asked, and for how long they are looked at first, as the vectors say."""

from __future__ import annotations

from typing import Any

import pytest

from covey.adapters.lan.tags import tag_of
from covey.core.content.nearer import look_us
from covey.core.ids import ContentHash, DeviceKey
from tests.vectors import vectors


@pytest.mark.parametrize("entry", vectors("content", "nearby"))
def test_tags_and_looks_are_as_the_vectors_say(entry: dict[str, Any]) -> None:
    content, salt, device = (bytes.fromhex(entry[name]) for name in ("hash", "salt", "device"))
    assert tag_of(content, salt) == entry["tag"]
    assert look_us(DeviceKey(device), ContentHash(content), has_peers=True) == entry["look_us"]
