"""What a device that trusts something does with the manifests of `groups.py` that it is offered, by name."""

from __future__ import annotations

from typing import Any


def _scenario(
    name: str,
    *offers: tuple[str, str],
    held: str | None = None,
    join: tuple[str, str] | None = None,
    members: str | None = None,
    conflict: bool = False,
    noise: tuple[str, str] | None = None,
    allowances: dict[str, int] | None = None,
) -> Any:
    """`held`: what the device holds at first. `join`: (inviter, device) where it has asked to join instead.

    `members`: who is in the group at the end, and whether the heads still contradict each other. `noise`: a device
    whose noise key is at the end what a manifest lists. `allowances`: what is left to some members at the end.
    """
    return {
        "name": name,
        "held": held,
        "join": {"inviter": join[0], "device": join[1]} if join else None,
        "offers": [{"manifest": manifest, "outcome": outcome} for manifest, outcome in offers],
        "members": members.split() if members is not None else None,
        "conflict": conflict,
        "noise": {"device": noise[0], "as_in": noise[1]} if noise else None,
        "allowances": allowances,
    }


def _rules() -> list[Any]:
    return [
        _scenario(
            "a chain", ("with bob", "accepted"), ("with carol", "accepted"), ("without bob", "accepted"), held="genesis"
        ),
        _scenario("rule 2: of another group", ("genesis of another group", "genesis"), held="genesis"),
        _scenario("rule 3: nobody asked", ("genesis", "genesis"), ("with bob", "genesis")),
        _scenario("rule 3: another genesis", ("genesis of this group by mallory", "genesis"), held="genesis"),
        _scenario("rule 4: let in", ("with bob", "accepted"), ("with carol", "accepted"), join=("alice", "bob")),
        _scenario("rule 4: let in by a later version", ("with carol", "accepted"), join=("bob", "carol")),
        _scenario(
            "rule 4: by another member than the inviter",
            ("carol adds mallory", "invite"),
            ("bob adds mallory", "accepted"),
            join=("bob", "mallory"),
        ),
        _scenario(
            "rule 4: a stranger's genesis of the same group",
            ("genesis of this group by mallory", "invite"),
            join=("alice", "bob"),
        ),
        _scenario(
            "rule 4: does not list us",
            ("version 2 without bob", "invite"),
            ("with bob", "accepted"),
            join=("alice", "bob"),
        ),
        _scenario(
            "rule 4: lists us under a noise key that is not ours",
            ("with bob under mallory's noise key", "invite"),
            ("with bob", "accepted"),
            join=("alice", "bob"),
        ),
        _scenario("rule 4: of another group", ("genesis of another group", "genesis"), join=("alice", "alice")),
        _scenario("rule 5: the same again", ("with bob", "unchanged"), ("with bob", "unchanged"), held="with bob"),
        _scenario("rule 5: lower", ("with bob", "rollback"), held="with carol"),
        _scenario(
            "rule 5: a jump",
            ("with carol", "version_gap"),
            ("with bob", "accepted"),
            ("with carol", "accepted"),
            held="genesis",
        ),
        _scenario("rule 5: follows something else", ("version 3 after something else", "version_gap"), held="with bob"),
        _scenario("rule 6: a jump that names the held one", ("version 4 after 2", "version_gap"), held="with bob"),
        _scenario(
            "rule 8: by a stranger", ("by a stranger", "unknown_issuer"), ("with carol", "accepted"), held="with bob"
        ),
        _scenario("rule 8: by one who was removed", ("by bob after his removal", "unknown_issuer"), held="without bob"),
        _scenario("rule 8: another's noise key", ("another's noise key", "not_allowed"), held="with carol"),
        _scenario("rule 8: an admin among equals", ("an admin among equals", "not_allowed"), held="with carol"),
        _scenario("rule 8: a member's age", ("a member made younger", "malformed"), held="with carol"),
        _scenario("rule 9: the epoch falls", ("version 5 with an earlier epoch", "rollback"), held="without bob"),
        _scenario(
            "rule 9: a removal in the old epoch", ("a removal without a new epoch", "malformed"), held="with carol"
        ),
        _scenario(
            "rule 9: a removal, the old secret", ("a removal with the old secret", "malformed"), held="with carol"
        ),
        _scenario("rule 9: a new secret for nothing", ("an addition with a new secret", "malformed"), held="with bob"),
        _scenario(
            "rule 9: a renewal",
            ("an epoch by two", "malformed"),
            ("a new epoch with the old secret", "malformed"),
            ("a new epoch and nothing else", "accepted"),
            held="with carol",
            members="alice bob carol",
        ),
    ]


def _conflicts() -> list[Any]:
    return [
        _scenario(
            "both are meant",
            ("alice removes bob", "accepted"),
            ("carol adds mallory", "accepted"),
            held="with carol",
            members="alice carol mallory",
            conflict=True,
        ),
        _scenario(
            "both are meant, in the other order, and ended",
            ("carol adds mallory", "accepted"),
            ("alice removes bob", "accepted"),
            ("bob out, mallory in", "accepted"),
            held="with carol",
            members="alice carol mallory",
        ),
        _scenario(
            "ended before it is known",
            ("bob out, mallory in", "version_gap"),
            ("alice removes bob", "accepted"),
            ("carol adds mallory", "accepted"),
            ("bob out, mallory in", "accepted"),
            held="with carol",
            members="alice carol mallory",
        ),
        _scenario(
            "what ends it may take something back, as any manifest may",
            ("carol adds mallory", "accepted"),
            ("alice removes bob", "accepted"),
            ("bob out, mallory forgotten", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "what the removed sign in ignorance is void",
            ("bob adds mallory", "accepted"),
            ("bob goes on", "accepted"),
            ("alice removes bob", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "removing each other: who is longer a member stays",
            ("bob removes alice", "accepted"),
            ("alice removes bob", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "removing each other: whom fewer want out stays",
            ("bob removes alice", "accepted"),
            ("alice removes bob", "accepted"),
            ("carol removes alice", "accepted"),
            held="with carol",
            members="bob carol",
            conflict=False,
        ),
        _scenario(
            "removing each other: who removes others, too, gains nothing",
            ("alice removes bob", "accepted"),
            ("carol goes on without bob", "accepted"),
            ("bob removes alice", "accepted"),
            ("bob removes carol, too", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "removing each other: who lets devices in that remove gains nothing",
            ("alice removes bob", "accepted"),
            ("bob adds mallory", "accepted"),
            ("mallory removes alice", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "records of two members",
            ("alice is labelled", "accepted"),
            ("bob is labelled", "accepted"),
            held="with carol",
            members="alice bob carol",
            conflict=True,
        ),
    ]


def _rotations() -> list[Any]:
    earlier, later = "bob rotates", "bob rotates to another key"  # in the order of their hashes
    return [
        _scenario("a rotation", ("bob rotates", "accepted"), held="with carol", noise=("bob", "bob rotates")),
        _scenario(
            "a rotation, and back",
            ("bob rotates", "accepted"),
            ("bob takes his first key again", "accepted"),
            ("bob rotates", "unchanged"),
            held="with carol",
            noise=("bob", "with carol"),
        ),
        *(
            _scenario(
                f"two rotations of one device: the later by hash holds, {order}",
                (one, "accepted"),
                (other, "accepted"),
                held="with carol",
                noise=("bob", later),
            )
            for order, one, other in (("in order", earlier, later), ("in the other order", later, earlier))
        ),
        _scenario(
            "a rotation while bob is removed",
            ("bob rotates", "accepted"),
            ("alice removes bob", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario(
            "a rotation while mallory is let in: both are meant",
            ("carol adds mallory", "accepted"),
            ("bob rotates", "accepted"),
            held="with carol",
            members="alice bob carol mallory",
            conflict=True,
            noise=("bob", "bob rotates"),
        ),
        _scenario(
            "a rotation to a key that somebody is let in under at the same time: the later by hash does not get it",
            ("carol adds mallory under bob's new key", "accepted"),
            ("bob rotates", "accepted"),
            held="with carol",
            members="alice bob carol",
            noise=("bob", "bob rotates"),
        ),
        _scenario(
            "a rotation in a group of admins",
            ("admins: mallory rotates", "accepted"),
            held="admins: with mallory",
            noise=("mallory", "admins: mallory rotates"),
        ),
        _scenario(
            "a rotation in a pair",
            ("pair: bob rotates", "accepted"),
            held="pair: with bob",
            noise=("bob", "pair: bob rotates"),
        ),
    ]


def _modes() -> list[Any]:
    return [
        _scenario(
            "admins: banned, unbanned, let in again",
            ("admins: mallory banned", "accepted"),
            ("admins: mallory unbanned", "accepted"),
            ("admins: mallory is back", "accepted"),
            ("admins: banned with old votes", "vote"),
            held="admins: with mallory",
            members="alice bob carol mallory",
        ),
        _scenario(
            "admins: a device that is no member is kept out, may come again, and is not kept out by the same votes",
            ("admins: dave kept out", "accepted"),
            ("admins: dave may come again", "accepted"),
            ("admins: dave kept out with old votes", "vote"),
            held="admins: with mallory",
            members="alice bob carol mallory",
        ),
        _scenario(
            "admins: a device is kept out while another lets it in",
            ("admins: with dave", "accepted"),
            ("admins: dave kept out", "accepted"),
            held="admins: with mallory",
            members="alice bob carol mallory",
        ),
        *(
            _scenario(f"admins: kept out {how}", (f"admins: dave kept out {how}", code), held="admins: with mallory")
            for how, code in (
                ("by one", "vote"),
                ("with a vote of another epoch", "vote"),
                ("in the same epoch", "malformed"),
            )
        ),
        _scenario(
            "equals: one keeps out whom another lets in",
            ("alice keeps mallory out", "accepted"),
            ("carol adds mallory", "accepted"),
            held="with carol",
            members="alice bob carol",
        ),
        _scenario(
            "admins: an admin is banned by more than half of all",
            ("admins: carol banned", "accepted"),
            held="admins: with mallory",
            members="alice bob mallory",
        ),
        *(
            _scenario(
                f"admins: two sides ban each other: who is longer a member stays, {order}",
                (one, "accepted"),
                (other, "accepted"),
                held="admins: with mallory",
                members="alice bob mallory",
            )
            for order, one, other in (
                ("in one order", "admins: carol banned", "admins: alice banned"),
                ("in the other", "admins: alice banned", "admins: carol banned"),
            )
        ),
        _scenario(
            "admins: an issuer who did not vote",
            ("admins: banned by an issuer who did not vote", "vote"),
            held="admins: with mallory",
        ),
        _scenario("admins: a minority", ("admins: banned by one of three", "vote"), held="admins: with mallory"),
        _scenario("admins: a self-vote", ("admins: bob votes about himself", "vote"), held="admins: with mallory"),
        _scenario("admins: a vote by no admin", ("admins: mallory votes", "vote"), held="admins: with mallory"),
        _scenario("admins: a vote about another", ("admins: a vote about carol", "vote"), held="admins: with mallory"),
        _scenario("admins: old votes", ("admins: votes about an earlier mallory", "vote"), held="admins: with mallory"),
        _scenario("admins: no ban", ("admins: removal without votes", "not_allowed"), held="admins: with mallory"),
        _scenario("admins: by a member", ("admins: addition by a member", "not_allowed"), held="admins: with mallory"),
        _scenario(
            "admins: a renewal",
            ("admins: a new epoch by a member", "not_allowed"),
            ("admins: a new epoch", "accepted"),
            held="admins: with mallory",
            members="alice bob carol mallory",
        ),
        _scenario(
            "admins: anybody may leave",
            ("admins: mallory leaves", "accepted"),
            held="admins: with mallory",
            members="alice bob carol",
        ),
        _scenario("pair: the one invited", ("pair: with bob", "accepted"), held="pair: genesis", members="alice bob"),
        _scenario("pair: another", ("pair: with carol", "not_allowed"), held="pair: genesis"),
        _scenario("pair: nobody removes the other", ("pair: bob removed", "not_allowed"), held="pair: with bob"),
        _scenario(
            "public: anybody lets itself in",
            ("public: bob lets himself in", "accepted"),
            held="public: genesis",
            members="alice bob",
        ),
        _scenario(
            "public: not as an admin", ("public: bob makes himself an admin", "not_allowed"), held="public: genesis"
        ),
        _scenario("public: nobody else", ("public: bob lets carol in", "unknown_issuer"), held="public: genesis"),
    ]


def _payments() -> list[Any]:
    return [
        _scenario(
            "rule 12: a label",
            ("bob pays nothing", "limit"),
            ("bob takes a page", "limit"),
            ("bob pays with carol's allowance", "malformed"),
            ("bob pays for his label", "accepted"),
            held="with carol",
            allowances={"bob": 261_885, "carol": 256},
        ),
        _scenario(
            "rule 12: an addition",
            ("bob pays for one page of two", "limit"),
            ("bob gives what he keeps", "limit"),
            ("bob gives a page", "accepted"),
            held="with carol",
            allowances={"bob": 261_883, "mallory": 1},
        ),
        _scenario(
            "rule 12: what only removals may use",
            ("bob is poor", "accepted"),
            ("poor bob changes his label", "limit"),
            ("poor bob keeps mallory out", "limit"),
            ("poor bob removes carol for nothing", "limit"),
            ("poor bob removes carol", "accepted"),
            held="with carol",
            allowances={"bob": 19},
        ),
        _scenario(
            "rule 12: leaving is free",
            ("bob is poor", "accepted"),
            ("poor bob leaves", "accepted"),
            held="with carol",
            members="alice carol",
        ),
        _scenario("rule 12: who leaves carries no votes", ("bob leaves with votes", "malformed"), held="with carol"),
        _scenario(
            "rule 12: of rivals that give the same twice, the first by hash gives it",
            ("bob gives all to carol", "accepted"),
            ("bob gives all to mallory", "accepted"),
            held="with bob",
            members="alice bob carol mallory",
            conflict=True,
            allowances={"bob": 0, "carol": 0, "mallory": 262_122},
        ),
        _scenario(
            "rule 12: admins pay nothing",
            ("admins: bob pays", "malformed"),
            ("admins: bob gives too much", "limit"),
            ("admins: bob changes his label", "accepted"),
            held="admins: with mallory",
        ),
        _scenario("rule 12: what admins give", ("admins: bob gives the most", "accepted"), held="admins: with mallory"),
        _scenario(
            "rule 12: members pay where there are admins",
            ("admins: mallory does not pay", "limit"),
            ("admins: mallory changes her label", "accepted"),
            held="admins: with mallory",
            allowances={"mallory": 262_143},
        ),
        _scenario(
            "rule 12: strangers",
            ("public: bob takes too much", "limit"),
            ("public: bob comes with votes", "malformed"),
            ("public: bob lets himself in", "accepted"),
            held="public: genesis",
            allowances={"bob": 256},
        ),
    ]


def make() -> list[Any]:
    """Return the scenarios."""
    return [*_rules(), *_conflicts(), *_rotations(), *_modes(), *_payments()]
