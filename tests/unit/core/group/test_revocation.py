"""`covey.core.group.revocation`: what a Revoke must be, and what a replayed or foreign one gets."""

from __future__ import annotations

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.group.revocation import check_revoke, read_revoke, sign_revoke
from covey.errors import RemoteError
from tests.vectors.makers.cast import ALICE, BOB, CAROL, MALLORY, flip
from tests.vectors.makers.groups import ADDS_MALLORY, OTHER_GROUP, WITH_BOARD, WITH_CAROL, WITHOUT_BOB


def test_a_revoke_is_read_back_and_obeyed() -> None:  # accepts: 000.22
    made = sign_revoke(WITH_CAROL, BOB)
    assert read_revoke(made.raw) == made
    assert set(made.targets) == {device.signing_public for device in (ALICE, BOB, CAROL)}
    check_revoke(made, WITH_CAROL, ALICE.signing_public)
    check_revoke(sign_revoke(WITH_CAROL, CAROL), WITHOUT_BOB, ALICE.signing_public)  # of the epoch before
    check_revoke(sign_revoke(WITH_CAROL, ALICE), ADDS_MALLORY, MALLORY.signing_public)  # whom its issuer does not know


@pytest.mark.parametrize(
    ("held", "issuer", "own", "code"),
    [
        (WITHOUT_BOB, BOB, ALICE, "unknown_issuer"),  # replayed: it was removed since
        (WITH_CAROL, MALLORY, ALICE, "unknown_issuer"),
        (WITH_BOARD, CAROL, ALICE, "unknown_issuer"),  # who holds a board's keys has taken them from it
        (WITH_CAROL, BOB, MALLORY, "not_for_us"),
        (OTHER_GROUP, ALICE, ALICE, "not_for_us"),
    ],
)
def test_a_revoke_of_another_time_place_or_author(
    held: GroupManifest, issuer: Identity, own: Identity, code: str
) -> None:  # accepts: 000.22
    with pytest.raises(RemoteError) as caught:
        check_revoke(sign_revoke(WITH_CAROL, issuer), held, own.signing_public)
    assert caught.value.code == code


def test_a_changed_revoke_is_nobodys() -> None:
    raw = sign_revoke(WITH_CAROL, BOB).raw
    for position in (10, len(raw) - 1):
        with pytest.raises(RemoteError) as caught:
            read_revoke(flip(raw, position))
        assert caught.value.code == "signature"
