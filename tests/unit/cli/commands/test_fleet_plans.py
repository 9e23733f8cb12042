"""`--fleet`: one plan for all groups that an operator administers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.orders.setting_role import settings_role
from covey.core.actions.results import REPEATED, CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.history.body import OperationBody
from covey.core.history.history import History
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, Obeying
from covey.core.ids import GroupId, Incarnation, key_text
from covey.core.orders.plans import plan_id
from covey.core.orders.selector import Selector, SelectorKind
from tests.command import Here, covey
from tests.fleet import identity

LEE, MAX, NINA = identity("lee"), identity("max"), identity("nina")
_MEMBERS = ((LEE, "shed"), (MAX, "shed"), (NINA, "barn"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Here:
    device = Here(tmp_path_factory.mktemp("made"), "kim")
    device.ok("own", "create")
    groups = [device.json("group", "create")["group_id"] for _ in _MEMBERS]
    for group, (keys, label) in zip(groups, _MEMBERS, strict=True):
        _add(device, group, keys, label)
    _add(device, groups[1], LEE, "shed")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    return device


@pytest.fixture
def kim(tmp_path: Path, made: Here) -> Here:
    """An operator's device in three groups, each with one other device; Lee's is in the first two."""
    return made.copied(tmp_path)


def _add(kim: Here, group: str, keys: Identity, label: str) -> None:
    words = key_text("sign", keys.signing_public), key_text("noise", keys.noise_public)
    kim.ok("group", "add", *words, "--label", label, "--group", group)


def _shared(kim: Here) -> list[str]:
    with open_device(find_state(str(kim.state))) as opened:
        return sorted(each.group_id.hex() for each in opened.node.groups.joined() if each.mode.name != "PERSONAL")


def _signed(kim: Here, group: str, author: Identity, body: OperationBody, number: int = 0) -> tuple[Operation, int]:
    """Return what another member says now in a group, in the log of this `number`, and the manifest's version."""
    with open_device(find_state(str(kim.state))) as opened:
        manifest = opened.node.groups.group(GroupId(bytes.fromhex(group)))
        operations = opened.store.operations
        heads = tuple(operations.heads(manifest.group_id))
        height = 1 + max(
            (held.height for each in heads if (held := operations.held(manifest.group_id, each))), default=0
        )
        log = Log(author.signing_public, Incarnation(bytes([height, number]) * 4))
        fields = (manifest.group_id, log, 1, None, heads, height, manifest.hash, 0, int(body.kind), body.to_wire())
        return sign_operation(Operation(*fields), author), manifest.version


def _keep(kim: Here, signed: Operation, version: int) -> str:
    """Have the operator's device hold an operation; return its id."""
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        opened.store.operations.add(signed, version, 0)
    return signed.id.hex()


def _said(kim: Here, group: str, author: Identity, body: OperationBody, number: int = 0) -> str:
    """Have the operator's device hold what another member has said in a group; return its id."""
    return _keep(kim, *_signed(kim, group, author, body, number))


def _operators(kim: Here, threshold: int, *others: Identity) -> None:
    keys = [kim.json("key", "show")["signing_key"], *(key_text("sign", each.signing_public) for each in others)]
    kim.ok("config", "set", "operations.operators", ",".join(keys))
    kim.ok("config", "set", "operations.threshold", str(threshold))


def _lees(kim: Here) -> list[str]:
    return [
        each
        for each in _shared(kim)
        if LEE.signing_public.hex()[:8] in str(kim.json("group", "show", "--group", each)["members"])
    ]


def _written(kim: Here) -> list[int]:
    """Return how many operations each group has, the personal one among them."""
    with open_device(find_state(str(kim.state))) as opened:
        return [opened.store.operations.count(each.group_id) for each in opened.node.groups.joined()]


@pytest.mark.slow
def test_a_setting_for_a_label_goes_to_the_groups_that_have_it(kim: Here) -> None:
    given = kim.json("setting", "set", "app.mode", "eco", "--fleet", "--for", "label:shed")
    assert (given["devices"], len(given["groups"])) == (2, 2), "Lee is in two groups, and counts once"
    [row] = kim.json("order", "list")
    assert (row["id"], sorted(row["groups"])) == (given["id"], sorted(given["groups"]))
    assert "(in 2 groups)" in kim.ok("order", "list")
    shown = kim.json("order", "show", given["id"][:8])
    assert (shown["text"], shown["missing"]) == ("app.mode = eco for label:shed", [])
    assert len(kim.json("setting", "diff", "--fleet", "--for", "label:shed")) == 3
    assert "no device" in kim.fails("setting", "set", "app.mode", "eco", "--fleet", "--for", "label:roof", code=2)
    kim.ok("setting", "unset", "app.mode", "--fleet", "--for", "label:shed")
    assert "no operator has set" in kim.fails("setting", "unset", "app.other", "--fleet", code=1)


@pytest.mark.slow
def test_nobody_is_asked_where_there_is_no_terminal(kim: Here) -> None:
    for words in (("setting", "set", "app.mode", "eco"), ("order", "run", "greet"), ("history", "post", "hello")):
        refusal = kim.fails(*words, code=1)
        assert "which group? this device is an operator in 3" in refusal
        assert "--fleet" in refusal
    refusal = kim.fails("setting", "set", "app.mode", "eco", "--fleet", "--group", _shared(kim)[0], code=2)
    assert "exclude each other" in refusal


@pytest.mark.slow
def test_a_device_of_several_groups_reports_a_plans_setting_to_each(kim: Here) -> None:
    """Kim's device is in all three groups, and obeys itself."""
    kim.ok("setting", "set", "telemetry.batch_seconds", "10", "--fleet")
    _look(kim)
    [row] = kim.json("order", "list")
    assert row["outcomes"] == {"restarting": 1, "waiting": 3}, "each device counts once"
    own = [each for each in kim.json("setting", "diff", "--all") if each["label"] == "kim"]
    assert [each["state"] for each in own] == ["restarting"] * 3
    kim.ok("setting", "set", "telemetry.batch_seconds", "20", "--group", _shared(kim)[0])
    _look(kim)
    own = [each for each in kim.json("setting", "diff", "--all") if each["label"] == "kim"]
    assert sorted((each["state"], each["wanted"]) for each in own) == [*[("replaced", 10)] * 2, ("restarting", 20)]


def _look(kim: Here) -> None:
    """Have the device take up its settings, as its agent does."""
    with open_device(find_state(str(kim.state))) as opened:
        settings_role(opened, lambda: None).turn(opened.node, opened.now())


@pytest.mark.slow
def test_a_command_runs_once_on_a_device_of_two_groups(kim: Here) -> None:
    groups = _shared(kim)
    by_member = {group: kim.json("group", "show", "--group", group)["members"] for group in groups}
    lees = [group for group in groups if LEE.signing_public.hex()[:8] in str(by_member[group])]
    for group in lees:
        _said(kim, group, LEE, Obeying())
    given = kim.json("order", "run", "greet", "--fleet", "--for", "label:shed")
    assert (given["devices"], given["obeying"], len(given["groups"])) == (2, 1, 2)
    plan = given["id"][:8]
    assert kim.json("order", "show", plan)["outcomes"] == {"waiting": 1, "excluded": 1}
    for group, is_first in zip(lees, (True, False), strict=True):
        with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
            group_id = GroupId(bytes.fromhex(group))
            [order] = opened.store.operations.of_kind(group_id, OperationKind.COMMAND)
            done = OrderResult(order.id, CommandState.DONE, 4, 7, 5, synchronised=True, exit=0)
            repeated = OrderResult(order.id, CommandState.REFUSED, 4, 4, code=REPEATED, why="taken before")
            result = done if is_first else repeated
            opened.node.order_results.keep(group_id, LEE.signing_public, result, opened.now())
    assert kim.json("order", "show", plan)["outcomes"] == {"done": 1, "excluded": 1}
    [row] = kim.json("order", "list")
    assert row["outcomes"] == {"done": 1, "excluded": 1}
    assert kim.covey("order", "show", plan, "--wait", "--timeout", "1").code == 3, "one allows no orders"


@pytest.mark.slow
def test_nothing_is_written_if_the_last_write_of_a_plan_fails(kim: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write, calls = _written(kim), History.write, 0

    def failing(self: History, *words: Any) -> Operation:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return write(self, *words)

    monkeypatch.setattr(History, "write", failing)
    assert kim.covey("setting", "set", "app.mode", "eco", "--fleet").code != 0
    assert calls == 4, "three groups were written, and the plan was not"
    monkeypatch.undo()
    assert _written(kim) == before
    kim.ok("setting", "set", "app.mode", "eco", "--fleet")
    assert [after - earlier for after, earlier in zip(_written(kim), before, strict=True)] == [1, 1, 1, 1]


def test_a_plan_needs_a_group_of_own_devices(tmp_path: Path) -> None:
    kim = Here(tmp_path, "kim")
    kim.ok("group", "create")
    kim.ok("config", "set", "operations.operators", kim.json("key", "show")["signing_key"])
    before = _written(kim)
    assert "covey own create" in kim.fails("setting", "set", "app.mode", "eco", "--fleet", code=1)
    assert _written(kim) == before


@pytest.mark.slow
def test_a_note_and_a_removal_are_plans_too(kim: Here) -> None:
    assert len(kim.json("history", "post", "hello", "--fleet")["notes"]) == 3
    removed = kim.json("group", "remove", LEE.signing_public.hex()[:12], "--fleet", "--yes")
    assert len(removed["groups"]) == 2
    left = [kim.json("group", "show", "--group", each)["members"] for each in _shared(kim)]
    assert sorted(map(len, left)) == [1, 2, 2]
    [note, removal] = _plans(kim)
    assert note.startswith("note: hello in 3 groups")
    assert " in 2 groups (plan " in removal


def _plans(kim: Here) -> list[str]:
    with open_device(find_state(str(kim.state))) as opened:
        personal = next(each for each in opened.node.groups.joined() if each.mode.name == "PERSONAL")
    log = kim.json_lines("history", "log", "--group", personal.group_id.hex(), "--type", "plan")
    return [each["text"] for each in log]


@pytest.mark.slow
def test_one_approval_signs_all_operations_of_a_plan(kim: Here) -> None:
    key = kim.json("key", "show")["signing_key"]
    kim.ok("config", "set", "operations.operators", f"{key},{key_text('sign', LEE.signing_public)}")
    kim.ok("config", "set", "operations.threshold", "2")
    given = kim.json("setting", "set", "app.mode", "eco", "--fleet", "--for", "label:shed")
    assert (given["signed"], given["needed"]) == (1, 2)
    assert "already signed plan" in kim.fails("order", "approve", given["id"][:8], "--fleet", code=1)
    for group in given["groups"]:
        with open_device(find_state(str(kim.state))) as opened:
            [order] = opened.store.operations.of_kind(GroupId(bytes.fromhex(group)), OperationKind.SETTING)
        assert not kim.json("order", "show", given["id"])["counts"], "one group lacks the second signature"
        _said(kim, group, LEE, Approval(order.id))
    assert kim.json("order", "show", given["id"])["counts"]


def _command(action: str, once: int, *devices: Identity) -> CommandOrder:
    selector = Selector(SelectorKind.DEVICES, devices=tuple(each.signing_public for each in devices))
    return CommandOrder(selector if devices else Selector(SelectorKind.ALL), action, {}, once.to_bytes(16, "big"))


@pytest.mark.slow
def test_a_plan_cannot_be_taken_for_an_order_whose_id_begins_alike(kim: Here) -> None:
    _operators(kim, 2, LEE, MAX)
    group = _lees(kim)[0]
    order = _said(kim, group, LEE, _command("greet", 1))
    for once in range(2, 10_000_000):
        evil = _command("wipe", once)
        plan = plan_id(LEE.signing_public, evil)
        assert plan is not None
        if plan.hex().startswith(order[:4]):
            break
    for number in range(2):
        _said(kim, group, LEE, evil, number)
    for words in (("approve",), ("show",)):
        refusal = kim.fails("order", *words, order[:4], code=1)
        assert "an order and a plan begin with" in refusal
        assert "give more digits" in refusal
    assert not [each for each in kim.json("order", "list") if each["counts"]]
    kim.ok("order", "approve", order)
    [approved] = [each for each in kim.json("order", "list") if each["counts"]]
    assert approved["id"] == order


@pytest.mark.slow
def test_an_approver_sees_what_each_order_of_a_plan_says(kim: Here) -> None:
    """The operations of a plan that name devices one by one have the same id, whatever devices they name."""
    _operators(kim, 2, LEE)
    for group, named in zip(_lees(kim), (LEE, MAX), strict=True):
        _said(kim, group, LEE, _command("greet", 1, named))
    [row] = kim.json("order", "list")
    for each in (LEE, MAX):
        assert each.signing_public.hex()[:8] in row["text"] or "shed" in row["text"]
    texts = row["text"].split("; ")
    assert len(texts) == 2, row["text"]
    assert kim.json("order", "show", row["id"])["order"]["text"] == row["text"]


@pytest.mark.slow
def test_an_order_that_is_void_in_one_group_stops_no_other_of_its_plan(kim: Here) -> None:
    """A member of one group removes the author; the plan's orders for other groups are approved and shown."""
    _operators(kim, 2, LEE)
    [third] = set(_shared(kim)) - set(_lees(kim))
    groups = [*_lees(kim), third]
    _add(kim, third, LEE, "shed")
    body = _command("greet", 1)
    signed = [_signed(kim, group, LEE, body) for group in groups]
    kim.ok("group", "remove", LEE.signing_public.hex()[:12], "--group", groups[1], "--yes")
    kim.ok("history", "post", "Lee has left", "--group", groups[1])
    plan = plan_id(LEE.signing_public, body)
    assert plan is not None
    for each in signed:
        _keep(kim, *each)
    assert [each["void"] for each in kim.json_lines("history", "log", "--group", groups[1], "--type", "command")] == [
        True
    ]
    kim.ok("order", "show", plan.hex())
    kim.ok("order", "approve", plan.hex())
    shown = kim.json("order", "show", plan.hex())
    assert shown["order"]["counts"]
    assert sorted(shown["groups"]) == sorted([groups[0], third])


@pytest.mark.slow
def test_orders_of_a_member_that_is_no_operator_are_no_plan(kim: Here) -> None:
    _operators(kim, 1)
    for group in _lees(kim):
        _said(kim, group, LEE, _command("greet", 1))
    plan = plan_id(LEE.signing_public, _command("greet", 1))
    assert plan is not None
    assert "no operation's id begins" in kim.fails("order", "show", plan.hex(), code=1)


_ODD = ("", "-1", "9" * 400, "x" * 20_000, "\udcff", "\n", "label:", "nan", "%s{}", "\N{COLLISION SYMBOL}" * 100)


def _odd_words(odd: str) -> Iterator[tuple[str, ...]]:
    for words in (
        *(("setting", "set", "app.mode"), ("setting", "set", "app.mode", "eco", "--for"), ("setting", "unset")),
        *(("order", "run"), ("order", "run", "greet", "--for"), ("order", "run", "greet", "--arg")),
        *(("order", "run", "greet", "--deadline"), ("order", "run", "greet", "--wait", "--timeout")),
        *(("order", "run", "greet", "--secret-from"), ("order", "show"), ("order", "approve"), ("history", "post")),
        *(("history", "post", "hello", "--mime"), ("group", "remove", "--yes")),
    ):
        yield (*words, odd, "--fleet")
    for action in ("ask", "accept", "decline", "reconsider"):
        yield "request", action, odd
    yield "request", "ask", "--from", odd
    yield "order", "run", "greet", "--fleet", "--secret-from", f"key={odd}"
    yield "order", "list", "--group", odd


@pytest.mark.slow
def test_odd_words_end_with_an_error_and_a_hint(kim: Here) -> None:
    for words in chain.from_iterable(map(_odd_words, _ODD)):
        ended = kim.covey(*words)
        assert ended.code in {0, 1, 2, 3, 78}, (words, ended)
        assert ended.code in {0, 3} or ("error: " in ended.stderr and "hint: " in ended.stderr), (words, ended)


@pytest.mark.slow
def test_a_state_that_cannot_be_written_ends_with_an_error_and_a_hint(kim: Here, tmp_path: Path) -> None:
    kim.ok("status")
    link, nowhere = tmp_path / "link", tmp_path / "nowhere"
    link.symlink_to(kim.state)
    nowhere.symlink_to(tmp_path / "missing")
    done = covey("setting", "set", "app.mode", "eco", "--fleet", "--state", str(link))
    assert done.code in {0, 78}, done
    for state in (nowhere, tmp_path / "file"):
        (tmp_path / "file").touch()
        for words in (("order", "list"), ("setting", "set", "app.mode", "eco", "--fleet"), ("request", "ask")):
            ended = covey(*words, "--state", str(state))
            assert ended.code in {1, 78}, (words, ended)
            assert "error: " in ended.stderr
            assert "hint: " in ended.stderr


@pytest.mark.slow
def test_a_fleet_has_no_public_group(kim: Here) -> None:
    public = kim.json("group", "create", "--mode", "public")["group_id"]
    _add(kim, public, LEE, "shed")
    given = kim.json("setting", "set", "app.mode", "eco", "--fleet", "--for", "label:shed")
    assert public not in given["groups"]
    assert len(given["groups"]) == 2


@pytest.mark.slow
def test_a_device_gets_into_the_group_of_own_devices_by_own_link_alone(kim: Here) -> None:
    with open_device(find_state(str(kim.state))) as opened:
        personal = next(each.group_id.hex() for each in opened.node.groups.joined() if each.mode.name == "PERSONAL")
    keys = key_text("sign", NINA.signing_public), key_text("noise", NINA.noise_public)
    for words in (("invite", "--no-wait"), ("invite", "--to", "barn"), ("group", "add", *keys)):
        refusal = kim.fails(*words, "--group", personal, code=1)
        assert "would get into all your groups" in refusal
        assert "covey own link" in refusal
