"""`covey.core.group.allowance`: what one member can make all others keep has a bound, and removals stay possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from covey.core.crypto import DeviceKeys, Identity
from covey.core.group.manifest import (
    BOARD,
    GroupManifest,
    Member,
    Mode,
    Role,
    genesis,
    pages,
    read_manifest,
    reserve,
    secret_id,
    sign_manifest,
)
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, EpochId, GroupId, NoisePublic
from covey.errors import LimitError, LocalError, MalformedError, RemoteError
from covey.limits.group import (
    ALLOWANCE_PART,
    FOUNDER_ALLOWANCE,
    MANIFEST_PAGE_BYTES,
    MEMBER_ALLOWANCE,
    RESERVED_PAGES,
    RESERVED_REMOVALS,
    STRANGER_ALLOWANCE,
)
from tests.fleet import identity

_GROUP = GroupId(bytes(range(32)))
_ANN, _BEN, _MAL, _EVE = (identity(name) for name in ("ann", "ben", "mal", "eve"))
_NUMBERS = count(1)


def _epoch() -> EpochId:
    return secret_id(next(_NUMBERS).to_bytes(8, "big"))


def _group(mode: Mode = Mode.INVITES_ONLY, *others: Member) -> GroupTrust:
    """Return a group that ann has founded, and into which she has let others."""
    invited = others[0].keys.signing_public if mode is Mode.ONE_TO_ONE else None
    trust = GroupTrust(_GROUP, None)
    trust.create(sign_manifest(genesis(_GROUP, Member(_ANN.keys), _epoch(), mode, invited), _ANN))
    for other in others:
        _issue(trust, _ANN, lambda draft, other=other: draft.adding(other))
    return trust


def _issue(trust: GroupTrust, issuer: Identity, edit: Callable[[GroupManifest], GroupManifest]) -> GroupManifest:
    """Issue a manifest as the product does.

    Raises:
        LocalError: it cannot be paid for.
        RemoteError: nobody takes it.
    """
    epoch = _epoch()
    manifest = _signed(trust, issuer, edit, epoch)
    trust.offer(manifest)
    trust.settle()
    return manifest


def _signed(
    trust: GroupTrust, issuer: Identity, edit: Callable[[GroupManifest], GroupManifest], epoch: EpochId
) -> GroupManifest:
    finished = trust.finish(edit(trust.draft(epoch, issuer.signing_public)), epoch)
    return read_manifest(sign_manifest(finished, issuer).raw)


def _unpaid(trust: GroupTrust, issuer: Identity, edit: Callable[[GroupManifest], GroupManifest]) -> GroupManifest:
    """Return a manifest whose issuer pays only what `edit` writes."""
    epoch = _epoch()
    edited = replace(trust.finish(edit(trust.draft(epoch, issuer.signing_public)), epoch), before=None)
    return read_manifest(sign_manifest(edited, issuer).raw)


def _allowance(trust: GroupTrust, device: Identity) -> int:
    assert trust.current is not None
    member = trust.current.member(device.signing_public)
    assert member is not None
    return member.allowance


def _with(draft: GroupManifest, device: Identity, **fields: object) -> GroupManifest:
    """Return a draft with other fields of a member's record, its allowance included."""
    members = [
        replace(each, **fields) if each.keys.signing_public == device.signing_public else each  # type: ignore[arg-type]
        for each in draft.members
    ]
    return replace(draft, members=tuple(members))


def _relabelled(draft: GroupManifest, device: Identity, label: str) -> GroupManifest:
    return _with(draft, device, label=label)


def _remover(device: Identity) -> Callable[[GroupManifest], GroupManifest]:
    return lambda draft: draft.removing(device.signing_public, _epoch())


def _made_up(number: int) -> Member:
    seed = number.to_bytes(32, "big")
    keys = DeviceKeys(DeviceKey(seed), NoisePublic(identity(f"made up {number}").noise_public))
    return Member(keys)


def _few_left(trust: GroupTrust, device: Identity, left: int) -> None:
    """Have a member lose all but a part of its allowance."""
    trust.offer(_unpaid(trust, device, lambda draft: _with(draft, device, label="poor", allowance=left)))
    trust.settle()


@pytest.mark.slow
def test_a_member_that_changes_its_label_without_end_comes_to_an_end() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys))
    _few_left(trust, _MAL, 400)
    for number in range(400 - RESERVED_PAGES - RESERVED_REMOVALS):
        _issue(trust, _MAL, lambda draft, number=number: _relabelled(draft, _MAL, f"label {number}"))
    with pytest.raises(LocalError, match="allowance"):
        _issue(trust, _MAL, lambda draft: _relabelled(draft, _MAL, "one too many"))


def test_a_member_that_lets_devices_in_and_removes_them_comes_to_an_end() -> None:
    """With all that its devices do: what it gives them it loses."""
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys))
    _few_left(trust, _MAL, 600)
    written = guests = 0
    while guests < 600:
        guest = identity(f"guest {guests}")
        try:
            made = [_issue(trust, _MAL, lambda draft, guest=guest: draft.adding(Member(guest.keys)))]
        except LocalError:
            break
        made += [_issue(trust, guest, _remover(guest))]
        written += sum(pages(len(manifest.raw)) for manifest in made)
        guests += 1
    assert guests > 5
    assert written < 600
    assert _allowance(trust, _ANN) > FOUNDER_ALLOWANCE - 2 * MEMBER_ALLOWANCE, "nobody else pays for it"
    _issue(trust, _ANN, lambda draft: _relabelled(draft, _ANN, "still here"))


def test_every_receiver_refuses_what_its_issuer_does_not_pay_for() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys), Member(_BEN.keys))
    left = _allowance(trust, _MAL)
    for refused, error in (
        (lambda draft: _relabelled(draft, _MAL, "x"), LimitError),
        (lambda draft: _with(draft, _MAL, label="x", allowance=left + 1), LimitError),
        (lambda draft: _with(_with(draft, _MAL, label="x", allowance=left - 1), _BEN, allowance=1), MalformedError),
        (lambda draft: _with(draft, _MAL, label="x", allowance=reserve(1) - 1), LimitError),
        (lambda draft: _with(draft.adding(_made_up(1)), _MAL, allowance=left - 1), LimitError),
        (
            lambda draft: _with(draft.adding(replace(_made_up(1), allowance=50)), _MAL, allowance=left - 51),
            LimitError,
        ),
    ):
        with pytest.raises(error):
            trust.offer(_unpaid(trust, _MAL, refused))
    trust.offer(_unpaid(trust, _MAL, lambda draft: _with(draft, _MAL, label="x", allowance=left - 1)))


def test_a_longer_manifest_costs_more() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys))
    left = _allowance(trust, _MAL)
    _issue(trust, _MAL, lambda draft: draft.adding(_made_up(1)))
    given = left // ALLOWANCE_PART
    assert left - _allowance(trust, _MAL) in range(given, given + 4), "one page, once more for the device"
    left = _allowance(trust, _MAL)

    def with_many(draft: GroupManifest) -> GroupManifest:
        for number in range(2, 102):
            draft = draft.adding(replace(_made_up(number), capabilities=(BOARD,)))
        return draft

    manifest = _issue(trust, _MAL, with_many)
    assert left - _allowance(trust, _MAL) == 101 * pages(len(manifest.raw))
    assert pages(len(manifest.raw)) == -(-len(manifest.raw) // MANIFEST_PAGE_BYTES) > 2


def test_a_member_without_allowance_for_anything_else_still_removes_devices() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys), Member(_BEN.keys), Member(_EVE.keys))
    _few_left(trust, _BEN, reserve(1))
    with pytest.raises(LocalError, match="allowance"):
        _issue(trust, _BEN, lambda draft: _relabelled(draft, _BEN, "x"))
    with pytest.raises(LocalError, match="allowance"):
        _issue(trust, _BEN, lambda draft: _relabelled(draft.removing(_EVE.signing_public, _epoch()), _BEN, "x"))
    with pytest.raises(LocalError, match="allowance"):
        _issue(trust, _BEN, lambda draft: draft.banning(identity("nobody").signing_public, _epoch()))
    _issue(trust, _BEN, lambda draft: draft.banning(_MAL.signing_public, _epoch()))
    _issue(trust, _BEN, _remover(_EVE))
    assert _allowance(trust, _BEN) == reserve(1) - 2


def test_a_member_without_any_allowance_can_leave_and_nothing_else() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys), Member(_BEN.keys))
    _few_left(trust, _BEN, reserve(1))
    for _ in range(reserve(1)):
        guest = Member(identity("guest").keys)
        _issue(trust, _ANN, lambda draft, guest=guest: draft.adding(guest))
        _issue(trust, _BEN, _remover(identity("guest")))
    with pytest.raises(LocalError, match="allowance"):
        _issue(trust, _BEN, _remover(_MAL))
    leaving = _unpaid(trust, _BEN, lambda draft: replace(_remover(_BEN)(draft), votes=(b"junk",)))
    with pytest.raises(MalformedError):
        trust.offer(leaving)
    _issue(trust, _BEN, _remover(_BEN))
    assert trust.current is not None
    assert trust.current.member(_BEN.signing_public) is None


def test_rivals_of_one_member_multiply_nothing() -> None:
    """In each of several branches a member gives all that it has to another device of its own."""
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys))
    left = _allowance(trust, _MAL)
    rivals = [
        _unpaid(
            trust,
            _MAL,
            lambda draft, guest=guest: _with(
                draft.adding(replace(guest, allowance=left - 2 - reserve(1))), _MAL, allowance=reserve(1)
            ),
        )
        for guest in map(_made_up, range(1, 7))
    ]
    orders = [rivals, rivals[::-1]]
    ends = []
    for order in orders:
        other = GroupTrust(_GROUP, trust.current)
        for rival in order:
            other.offer(rival)
        assert other.current is not None
        ends.append({member.keys.signing_public: member.allowance for member in other.current.members})
    assert ends[0] == ends[1], "the order in which they come does not matter"
    of_mallory = sum(allowance for key, allowance in ends[0].items() if key != _ANN.signing_public)
    assert of_mallory < left
    assert len(ends[0]) == 2 + len(rivals), "all of them are members"


def test_rivals_are_paid_for_together() -> None:
    """A device whose state was restored issues two manifests that do not know of each other."""
    trust = _group(Mode.INVITES_ONLY, Member(_BEN.keys))
    left = _allowance(trust, _BEN)
    labelled = _signed(trust, _BEN, lambda draft: _relabelled(draft, _BEN, "x"), _epoch())
    capable = _signed(trust, _BEN, lambda draft: _with(draft, _BEN, capabilities=("x",)), _epoch())
    trust.offer(labelled)
    trust.offer(capable)
    assert trust.conflict
    assert _allowance(trust, _BEN) == left - 2
    _issue(trust, _ANN, lambda draft: draft)
    assert not trust.conflict
    assert _allowance(trust, _BEN) == left - 2


def test_two_ends_of_one_conflict_are_no_conflict() -> None:
    """They differ only by what their issuers pay."""
    trust = _group(Mode.INVITES_ONLY, Member(_BEN.keys), Member(_EVE.keys))
    for device in (_BEN, _EVE):
        other = GroupTrust(_GROUP, trust.root)
        trust.offer(_signed(other, device, lambda draft, device=device: _relabelled(draft, device, "x"), _epoch()))
    ends = [_signed(trust, device, lambda draft: draft, _epoch()) for device in (_BEN, _EVE)]
    for end in ends:
        trust.offer(end)
    assert len(trust.heads()) == 2
    assert not trust.conflict
    ben, eve = _allowance(trust, _BEN), _allowance(trust, _EVE)
    last = _issue(trust, _ANN, lambda draft: _relabelled(draft, _ANN, "y"))
    assert len(last.prev) == 2
    assert {_allowance(trust, _BEN), _allowance(trust, _EVE)} == {min(ben, eve)}, "each has paid for its end"


def test_admins_pay_nothing_and_give_a_bounded_allowance() -> None:
    trust = _group(Mode.ADMIN_INVITES, Member(_BEN.keys, role=Role.ADMIN), Member(_MAL.keys))
    assert _allowance(trust, _ANN) == FOUNDER_ALLOWANCE
    assert _allowance(trust, _MAL) == _allowance(trust, _BEN) == MEMBER_ALLOWANCE
    _issue(trust, _BEN, lambda draft: _relabelled(draft, _BEN, "x"))
    assert _allowance(trust, _BEN) == MEMBER_ALLOWANCE
    _issue(trust, _MAL, lambda draft: _relabelled(draft, _MAL, "x"))
    assert _allowance(trust, _MAL) == MEMBER_ALLOWANCE - 1
    generous = replace(_made_up(1), allowance=MEMBER_ALLOWANCE + 1)
    with pytest.raises(LimitError):
        trust.offer(_unpaid(trust, _BEN, lambda draft: draft.adding(generous)))
    with pytest.raises(MalformedError):
        trust.offer(_unpaid(trust, _BEN, lambda draft: _with(draft, _BEN, label="z", allowance=1)))


def test_a_stranger_gets_a_small_allowance() -> None:
    trust = _group(Mode.PUBLIC)
    _issue(trust, _EVE, lambda draft: draft.adding(Member(_EVE.keys)))
    assert _allowance(trust, _EVE) == STRANGER_ALLOWANCE
    greedy = replace(Member(_MAL.keys), allowance=STRANGER_ALLOWANCE + 1)
    with pytest.raises(LimitError):
        trust.offer(_unpaid(trust, _MAL, lambda draft: draft.adding(greedy)))
    with pytest.raises(MalformedError):
        trust.offer(_unpaid(trust, _MAL, lambda draft: replace(draft.adding(Member(_MAL.keys)), votes=(b"junk",))))


def test_a_board_gets_no_allowance() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_BEN.keys))
    left = _allowance(trust, _BEN)
    _issue(trust, _BEN, lambda draft: draft.adding(Member(_EVE.keys, capabilities=(BOARD,))))
    assert _allowance(trust, _EVE) == 0
    assert _allowance(trust, _BEN) == left - 2


def test_a_founder_cannot_begin_with_more() -> None:
    for allowance in (FOUNDER_ALLOWANCE - 1, FOUNDER_ALLOWANCE + 1):
        begun = genesis(_GROUP, Member(_ANN.keys), _epoch())
        changed = replace(begun, members=(replace(begun.members[0], allowance=allowance),))
        with pytest.raises(RemoteError):
            read_manifest(sign_manifest(changed, _ANN).raw)


@pytest.mark.slow
def test_what_a_member_adds_and_removes_again_costs_what_the_example_says() -> None:
    trust = _group(Mode.INVITES_ONLY, Member(_MAL.keys))
    guests = [_made_up(number) for number in range(1, 901)]
    removed = {guest.keys.signing_public for guest in guests}
    for _ in range(15):
        left = _allowance(trust, _MAL)

        def with_all(draft: GroupManifest, left: int = left) -> GroupManifest:
            draft = draft.adding(guests[0])
            others = (replace(guest, since=draft.version) for guest in guests[1:])  # one by one they take seconds
            members = sorted((*draft.members, *others), key=lambda each: each.keys.signing_public)
            return _with(replace(draft, members=tuple(members)), _MAL, allowance=left - 901 * 19)

        trust.offer(_unpaid(trust, _MAL, with_all))
        trust.settle()
        assert trust.current is not None
        assert pages(len(trust.current.raw)) == 19

        def without(draft: GroupManifest) -> GroupManifest:
            draft = draft.removing(guests[0].keys.signing_public, _epoch())
            rest = [each for each in draft.members if each.keys.signing_public not in removed]
            return replace(draft, members=tuple(rest))

        assert pages(len(_issue(trust, _MAL, without).raw)) == 1
    assert _allowance(trust, _MAL) < 901 * 19
