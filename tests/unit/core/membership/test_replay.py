"""`covey.core.membership.replay`: what waits for a past that is not here goes on waiting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from covey.core.group.manifest import sign_manifest
from covey.core.membership.replay import reopened
from tests.fleet import Device, found


def test_what_waits_far_above_everything_that_is_stored_reopens_nothing(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    group_id = found(ann)
    far = replace(ann.node.groups.group(group_id), version=10_000, raw=b"")
    one = sign_manifest(replace(far, prev=()), ann.identity)
    other = sign_manifest(replace(far, version=10_001, prev=(one.hash,)), ann.identity)
    waiting = {each.hash: each for each in (one, other)}
    assert reopened(group_id, waiting, ann.store.groups) is None
    assert len(waiting) == 2
