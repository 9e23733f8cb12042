"""The product and the second implementation judge alike: random graphs, random histories, structures that were changed.

`tests/outside/device/judge.js` shares no code with the product. Both see the same bytes, and must say the same of them.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import cbor2
import pytest

from covey.adapters.sqlite.store import empty_history
from covey.core import crypto
from covey.core.actions.results import OrderResult
from covey.core.group.manifest import Member, Mode, read_manifest, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.history.bodies import GroupProfile, Note, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation
from covey.core.history.orders import Approval, CommandOrder, Obeying, OperatorChange, SettingOrder
from covey.core.history.personal import FleetPlan, OwnGroup, Preference
from covey.core.history.releases import ReleaseChange
from covey.core.ids import DeviceKey
from covey.core.membership.requests import GroupInvite
from covey.core.orders.authority import Pins, weigh_orders
from covey.core.orders.plans import plan_id
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.pairing.messages import from_wire as rendezvous_from_wire
from covey.core.pake import Pake, Side
from covey.core.settings.states import SettingReport
from covey.core.telemetry.decoding import read_telemetry
from covey.errors import LocalError, RemoteError
from tests.examples import Share, shares
from tests.integration.second import SECOND, node
from tests.rival_manifests import CAST, GROUP, ManifestWriter, in_some_order
from tests.vectors import load
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, INCARNATION, MALLORY
from tests.vectors.makers.checkpoints import proposed, state_over
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import adds, as_they_may_come, order, removes, said
from tests.vectors.test_growth import READERS

pytestmark = pytest.mark.processes

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask the second implementation."""
    words = [node(), str(SECOND / "judge.js")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, answers = process.stdin, process.stdout

        def question(what: str, **fields: Any) -> Any:
            to.write(json.dumps({"ask": what, **fields}) + "\n")
            to.flush()
            return json.loads(answers.readline())

        yield question
        to.close()


def _code(judge: Callable[[], object]) -> str | None:
    try:
        judge()
    except RemoteError as error:
        return error.code
    return None


@pytest.mark.parametrize("mode", [Mode.INVITES_ONLY, Mode.ADMIN_INVITES, Mode.PERSONAL])
@pytest.mark.parametrize("share", shares(3, plain=1))
def test_both_find_the_same_members_in_random_graphs(ask: Ask, mode: Mode, share: Share) -> None:
    for seed in share.of(range(30)):
        chance = random.Random(f"{mode} {seed}")
        writer = ManifestWriter(chance, mode)
        for _ in range(2):
            writer.write(calm=chance.randint(1, 3), stormy=chance.randint(3, 8))
        ordered = in_some_order(writer.written, chance)
        strays = [chance.choice(ordered) for _ in range(2)]
        offered = [*ordered[:1], *(each for one in ordered[1:] for each in (one, *strays))]
        trust = GroupTrust(GROUP, ordered[0])
        outcomes = []
        for each in offered[1:]:
            held = trust.holds(each.hash)
            code = _code(partial(trust.offer, each))
            outcomes.append(code or ("unchanged" if held else "accepted"))
        found = ask("manifests", manifests=[each.raw.hex() for each in offered])
        current = trust.current
        assert current is not None
        assert found["outcomes"] == outcomes, seed
        assert found["heads"] == sorted(each.hash.hex() for each in trust.heads()), seed
        assert found["members"] == [
            [m.keys.signing_public.hex(), m.keys.noise_public.hex(), m.label, m.role, m.since] for m in current.members
        ], seed
        assert found["banned"] == sorted([each.signing_public.hex(), each.since] for each in current.banned), seed
        assert found["conflict"] == trust.conflict, seed
        assert found["current"] == (None if trust.conflict else current.hash.hex()), seed


@pytest.mark.parametrize("share", shares(3, plain=1))
def test_both_find_the_same_operators_and_orders_in_random_histories(ask: Ask, share: Share) -> None:
    people = (ALICE, BOB, CAROL, MALLORY)
    members = frozenset(each.signing_public for each in people)
    for seed in share.of(range(150)):
        chance = random.Random(f"orders {seed}")
        written: list[Operation] = []
        for place in range(chance.randint(1, 16)):
            parents = chance.sample(written[-4:], min(len(written[-4:]), chance.choice((0, 1, 1, 2))))
            about = chance.randrange(4)
            body = chance.choice([adds(people[about]), removes(people[about]), order(about)])
            if written and chance.random() < 0.25:
                body = Approval(chance.choice(written).id)
            written.append(said(chance.choice(people), body, *parents, log=str(place)))
        pins = Pins(frozenset(each.signing_public for each in people[: chance.randint(1, 2)]), chance.choice((1, 1, 2)))
        with empty_history() as tables:
            for operation in as_they_may_come(written):
                tables.add(operation, 1, 0)
            weighed = weigh_orders(tables, GROUP_ID, pins, members, (), kind=OperationKind.COMMAND)
        found = ask(
            "orders",
            operations=[each.raw.hex() for each in written],
            pinned=[each.hex() for each in pins.operators],
            threshold=pins.threshold,
            members=[each.hex() for each in members],
        )
        assert found["operators"] == sorted(each.hex() for each in weighed.operators), seed
        assert found["counts"] == sorted(each.id.hex() for each in weighed.orders if each.counts), seed


@pytest.mark.parametrize("mode", [Mode.INVITES_ONLY, Mode.PERSONAL])
def test_the_product_accepts_what_the_second_implementation_issues(ask: Ask, mode: Mode) -> None:
    removals = endings = 0
    for seed in range(40):
        chance = random.Random(f"issuing {mode} {seed}")
        writer = ManifestWriter(chance, mode)
        writer.write(calm=chance.randint(1, 3), stormy=chance.randint(2, 7))
        trust = GroupTrust(GROUP, writer.written[0])
        for each in writer.written[1:]:
            trust.offer(each)
        assert trust.current is not None
        listed = {member.keys.signing_public for member in trust.current.members}
        issuers = [each for each in CAST if each.signing_public in listed]
        if not issuers:  # they have removed each other
            continue
        issuer, newcomer = chance.choice(issuers), chance.choice(CAST)
        taken = {member.keys.noise_public for member in trust.current.members}
        banned = {each.signing_public for each in trust.current.banned}
        adds = newcomer.signing_public not in listed | banned and newcomer.noise_public not in taken
        leaving: list[DeviceKey | None] = [*sorted(listed - {issuer.signing_public}), None]
        leaves = chance.choice(leaving)
        raw = ask(
            "issue",
            manifests=[each.raw.hex() for each in writer.written],
            seed=issuer.signing_seed.hex(),
            add=[newcomer.signing_public.hex(), newcomer.noise_public.hex()] if adds else None,
            remove=None if leaves is None else leaves.hex(),
        )
        if raw == "limit":
            epoch = secret_id(b"not paid for")
            draft = trust.draft(epoch, issuer.signing_public)
            draft = draft if leaves is None else draft.removing(leaves, epoch)
            draft = draft.adding(Member(newcomer.keys)) if adds else draft
            with pytest.raises(LocalError, match="allowance"):
                sign_manifest(trust.finish(draft, epoch), issuer)
            continue
        was_in_conflict = trust.conflict
        issued = read_manifest(bytes.fromhex(raw))
        trust.offer(issued)
        wanted = (listed | ({newcomer.signing_public} if adds else set())) - {leaves}
        assert {member.keys.signing_public for member in issued.members} == wanted, seed
        assert not trust.conflict, seed
        assert trust.current.hash == issued.hash, seed
        removals += leaves is not None
        endings += was_in_conflict
    assert removals
    assert endings


def test_both_find_the_same_plans(ask: Ask) -> None:
    samples = [(each["kind"], cbor2.loads(bytes.fromhex(each["bytes"]))) for each in load("orders")["plans"]]
    for seed in range(200):
        chance = random.Random(f"plan {seed}")
        kind, value = chance.choice([each for each in samples if each[0] != OperationKind.APPROVAL])
        body = cbor2.dumps(_changed(value, chance), canonical=True)
        author = chance.choice((ALICE, BOB)).signing_public
        operation = replace(said(ALICE, order()), log=Log(author, INCARNATION), kind=kind, body=body)
        if _code(partial(read_body, operation)) is None:
            plan = plan_id(author, read_body(operation))
            found = ask("plan", author=author.hex(), kind=kind, bytes=body.hex())
            assert found == (None if plan is None else plan.hex()), (seed, body.hex())


_SMALL = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
]
"""Elements of small order."""


def test_both_derive_the_same_keys_and_refuse_the_same_elements(ask: Ask) -> None:
    for seed in range(12):
        chance = random.Random(f"pake {seed}")
        password, entropies = chance.randbytes(chance.choice((0, 4, 16, 25))), [chance.randbytes(64) for _ in range(2)]
        inviter, joiner = (
            Pake(side, password, lambda _, entropy=entropy: entropy)
            for side, entropy in zip((Side.INVITER, Side.JOINER), entropies, strict=True)
        )
        strange = [chance.choice(_SMALL), chance.randbytes(32).hex(), "ff" * 32]
        for side, entropy, own, other in (
            (True, entropies[0], inviter, joiner.element),
            (False, entropies[1], joiner, inviter.element),
        ):
            for element in (other.hex(), own.element.hex(), chance.choice(strange)):
                found = ask("pake", inviter=side, password=password.hex(), entropy=entropy.hex(), element=element)
                mine = Pake(Side.INVITER if side else Side.JOINER, password, lambda _, entropy=entropy: entropy)
                code = _code(partial(mine.finish, bytes.fromhex(element)))
                fresh = Pake(Side.INVITER if side else Side.JOINER, password, lambda _, entropy=entropy: entropy)
                key = code or fresh.finish(bytes.fromhex(element)).hex()
                assert found == {"element": own.element.hex(), "key": key}, (seed, side, element)


@pytest.mark.parametrize("share", shares(3, plain=1))
def test_both_make_the_same_states_of_random_histories(ask: Ask, share: Share) -> None:
    people = (ALICE, BOB, CAROL)
    members = [member.keys.signing_public.hex() for member in WITH_CAROL.members]
    for seed in share.of(range(60)):
        chance = random.Random(f"state {seed}")
        written: list[Operation] = []
        for place in range(chance.randint(1, 70 if seed % 10 == 0 else 14)):
            followed = {parent for each in written for parent in each.parents}
            heads = [each for each in written if each.id not in followed]
            few = chance.sample(written[-4:], min(len(written[-4:]), chance.choice((0, 1, 1, 2))))
            parents = heads if len(heads) > 6 else few  # what a merge follows is bounded
            about = chance.randrange(3)
            selector = chance.choice((EVERYBODY, Selector(SelectorKind.LABEL, name=f"label {about}")))
            sealed = b"\x01" if chance.random() < 0.2 else None
            value = None if sealed else chance.choice(("eco", 7, True, None))
            body = chance.choice(
                [
                    *(adds(people[about], f"called {place}"), removes(people[about]), order(about)),
                    *[SettingOrder(selector, f"app.{about}", value, sealed, bytes(16) if about else None)] * 3,
                    *(Note("text/plain", b"hello"), GroupProfile(f"title {place}"), Obeying()),
                ]
            )
            if written and chance.random() < 0.25:
                body = Approval(chance.choice(written).id)
            written.append(said(chance.choice(people), body, *parents, log=str(place)))
        pins = Pins(frozenset(each.signing_public for each in people[: chance.randint(1, 2)]), chance.choice((1, 1, 2)))
        ordered = list(as_they_may_come(written))
        found = ask(
            "state",
            operations=[*(each.raw.hex() for each in ordered), proposed(CAROL, ordered, pins, WITH_CAROL)[0].raw.hex()],
            pinned=[each.hex() for each in pins.operators],
            threshold=pins.threshold,
            members=members,
        )
        assert found == state_over(ordered, pins, WITH_CAROL).to_wire().hex(), seed


def _changed(value: Any, chance: random.Random) -> Any:
    """Return a value with one part of it exchanged, left out, repeated or made longer."""
    if isinstance(value, list) and value and chance.random() < 0.75:
        place = chance.randrange(len(value))
        what = chance.random()
        if what < 0.12:
            return value[:place] + value[place + 1 :]
        if what < 0.2:
            return [*value[:place], value[place], *value[place:]]
        return [*value[:place], _changed(value[place], chance), *value[place + 1 :]]
    strange: list[Any] = [
        *(
            0,
            1,
            2,
            -1,
            23,
            255,
            256,
            2**40 - 1,
            2**40,
            2**63 - 1,
            2**63,
            True,
            None,
            "",
            "x",
            "a b",
            b"",
            b"\0",
            [],
            {},
        ),
        *({1: 0}, {2: 0}, {3: [1]}, bytes(32), bytes(16), b"\x07" * 32, "é" * 40, [0], [[]], 1.5),
    ]
    if isinstance(value, bytes) and value and chance.random() < 0.5:
        return value[:-1] if chance.random() < 0.5 else value + b"\0"
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice((-1, 1))
    return chance.choice(strange)


_SIGNED = {
    "message": b"covey/1 message",
    "operation": b"covey/1 operation",
    "group manifest": b"covey/1 group manifest",
    "vote": b"covey/1 vote",
    "revoke": b"covey/1 revoke",
}
_SIGNERS = {each.signing_public: each for each in (ALICE, BOB, CAROL, MALLORY)}
_READERS: dict[str, Callable[[bytes], Any]] = READERS | {
    "own group": OwnGroup.from_wire,
    "preference": Preference.from_wire,
    "operator": OperatorChange.from_wire,
    "command": CommandOrder.from_wire,
    "release": ReleaseChange.from_wire,
    "plan": FleetPlan.from_wire,
    "ORDER_RESULT": OrderResult.from_wire,
    "SETTING_REPORT": SettingReport.from_wire,
    "GROUP_INVITE": GroupInvite.from_wire,
    "TELEMETRY": lambda body: list(read_telemetry(body)[1].readings()),
    "rendezvous": rendezvous_from_wire,
}


def _samples() -> dict[str, list[bytes]]:
    """Return good structures of each kind, from the vectors."""
    orders = load("orders")
    held = cbor2.dumps([GROUP_ID, 0, "Pumpen"], canonical=True), cbor2.dumps([None, "theme", "dark"], canonical=True)
    found: dict[str, list[bytes]] = {"own group": [held[0]], "preference": [held[1]]}
    entries = [
        *((each["structure"], each) for each in load("growth")["vectors"]),
        *(({4: "operator", 6: "command", 13: "release"}.get(each["kind"]), each) for each in orders["bodies"]),
        *(("plan", each) for each in load("personal")["bodies"]),
        *(("ORDER_RESULT", each) for each in orders["results"]),
        *(("SETTING_REPORT", each) for each in orders["reports"]),
        *(("GROUP_INVITE", each) for each in load("invites")["group_invites"]),
        *(("TELEMETRY", each) for each in load("telemetry")["vectors"]),
        *(("rendezvous", each) for each in load("ceremonies")["vectors"]),
    ]
    for structure, each in entries:
        if structure is not None and each["code"] is None and "bytes_repeat" not in each:
            found.setdefault(structure, []).append(bytes.fromhex(each["bytes"]))
    return found


@pytest.mark.parametrize("share", shares(3, plain=1))
def test_both_refuse_the_same_changed_structures_with_the_same_codes(ask: Ask, share: Share) -> None:
    samples = _samples()
    differ = []
    for structure in sorted(_READERS):
        for seed in share.of(range(150)):
            chance = random.Random(f"{structure} {seed}")
            raw = _mutant(structure, chance.choice(samples[structure]), chance)
            wanted = _code(partial(_READERS[structure], raw))
            found = ask("read", structure=structure, bytes=raw.hex())
            if found != wanted:
                differ.append((structure, seed, wanted, found, raw.hex()[:400]))
    assert not differ, "\n".join(map(str, differ))


def _mutant(structure: str, raw: bytes, chance: random.Random) -> bytes:
    value = cbor2.loads(raw)
    if structure not in _SIGNED:
        if chance.random() < 0.1:
            place = chance.randrange(len(raw))
            return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]
        return cbor2.dumps(_changed(value, chance), canonical=True)
    document = cbor2.dumps(_changed(cbor2.loads(value[1]), chance), canonical=True)
    signer = next((each for key, each in _SIGNERS.items() if bytes(key) in document), ALICE)
    signature = crypto.sign(_SIGNED[structure], document, signer) if chance.random() < 0.85 else bytes(64)
    return cbor2.dumps([signature, document], canonical=True)
