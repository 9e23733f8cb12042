"""`covey.core.group.rules`: which version of the judging rules a manifest may name, and which one holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import cbor2
import pytest

from covey.core.group import rules
from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.group.rules import JUDGING, judging
from covey.core.group.trust import GroupTrust
from covey.core.ids import GroupId
from covey.errors import LocalError, RollbackError, UnsupportedError
from tests.fleet import identity

_ANN, _BEN, _OLD = (identity(name) for name in ("ann", "ben", "old"))
_KNOWS_2 = cbor2.dumps({3: 2})
_GROUP, _EPOCH = GroupId(bytes(range(32))), secret_id(b"first")
_NEXT = secret_id(b"second")
"""Of an epoch that would begin, were there a reason for one."""


@pytest.fixture(autouse=True)
def _knows_version_2() -> Iterator[None]:
    with patch.dict(rules.JUDGING, {2: JUDGING[1]}):
        yield


def _founded(extensions: bytes = _KNOWS_2) -> GroupManifest:
    return sign_manifest(genesis(_GROUP, Member(_ANN.keys, extensions=extensions), _EPOCH), _ANN)


def test_the_first_manifest_that_all_can_judge_names_later_rules() -> None:
    trust = GroupTrust(_GROUP, _founded())
    issued = trust.finish(trust.draft(_NEXT, _ANN.signing_public), _NEXT)
    assert issued.rules == 2
    trust.update(sign_manifest(issued, _ANN).raw)
    assert trust.current is not None
    assert trust.current.rules == 2


def test_rules_stay_where_one_member_does_not_know_later_ones() -> None:
    trust = GroupTrust(_GROUP, _founded(b""))
    assert trust.finish(trust.draft(_NEXT, _ANN.signing_public), _NEXT).rules == 1


def test_later_rules_are_never_given_up() -> None:
    later = sign_manifest(replace(_founded().draft(), rules=2), _ANN)
    trust = GroupTrust(_GROUP, later)
    with pytest.raises(RollbackError):
        trust.update(sign_manifest(replace(later.adding(Member(_OLD.keys)), rules=1), _ANN).raw)


def test_a_device_that_does_not_know_the_rules_is_not_let_in() -> None:
    trust = GroupTrust(_GROUP, sign_manifest(replace(_founded().draft(), rules=2), _ANN))
    trust.finish(trust.draft(_EPOCH, _ANN.signing_public).adding(Member(_BEN.keys, extensions=_KNOWS_2)), _EPOCH)
    with pytest.raises(LocalError, match="does not know") as refused:
        trust.finish(trust.draft(_EPOCH, _ANN.signing_public).adding(Member(_OLD.keys)), _EPOCH)
    assert "upgrade Covey" in refused.value.hint


def test_rules_that_this_build_does_not_know_are_named() -> None:
    with pytest.raises(UnsupportedError, match="version 9"):
        judging(9)
