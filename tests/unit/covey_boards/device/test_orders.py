"""What operators order of a board: done once, whoever brings it again, and told by the board's own signature."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from covey.core import crypto
from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, GroupId, Incarnation, ManifestHash, OperationId
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.wire import cbor
from covey_boards.device import orders
from covey_boards.device.blake2b import blake2b_256
from covey_boards.shared import line_orders, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from tests.fleet import identity

QUICK = {"interval_us": 500_000, "batch_us": 4_000_000}
PERSON = b"covey/1 op id"


@pytest.fixture(autouse=True)
def _random_source() -> object:
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


class Valve:
    """The owner's actions; `cut` is raised while one is being done, as if the power went."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.blinked = 0
        self.cut = False

    def open_valve(self, litres: str) -> str:
        self.opened.append(litres)
        self._power()
        return f"{litres} litres"

    def blink(self) -> None:
        self.blinked += 1
        self._power()

    def break_down(self) -> None:
        raise OSError(19)

    def _power(self) -> None:
        if self.cut:
            raise PowerCutError


class PowerCutError(BaseException):
    """The power has gone."""


@pytest.fixture
def valve() -> Iterator[Valve]:
    module, valve = ModuleType("my_actions"), Valve()
    module.ACTIONS = {  # type: ignore[attr-defined]
        "open-valve": valve.open_valve, "blink": valve.blink, "break": valve.break_down, "restart": None,
    }  # fmt: skip
    module.REPEATABLE = ("blink",)  # type: ignore[attr-defined]
    sys.modules["my_actions"] = module
    yield valve
    del sys.modules["my_actions"]


class Site:
    """A board that has pinned operators, and its gateway, which hands orders down."""

    def __init__(self, operators: tuple[Identity, ...], threshold: int = 1) -> None:
        self.world = simulation.World(1, **QUICK)
        self.results: list[tuple[bytes, bytes]] = []
        receive = self.world.gateway.receive

        def received(message: list[Any], now_us: int) -> None:
            if message[0] == line_orders.RESULT:
                self.results.append((message[1], message[2]))
            else:
                receive(message, now_us)

        self.world.gateway.receive = received
        if operators:
            keys = [each.signing_public for each in operators]
            self.world.gateway.link.send(messages.to_line(line_orders.OPERATORS, threshold, keys))
        self.world.run(5)
        self.height = 10

    @property
    def board(self) -> DeviceKey:
        return DeviceKey(self.world.board.identity.signing_public)

    def operation(self, body: Any, by: Identity, height: int | None = None) -> bytes:
        self.height += 1
        log = Log(by.signing_public, Incarnation(b"operates"))
        parents = (OperationId(hashlib.sha256(b"parent").digest()),)
        operation = Operation(
            *(GroupId(simulation.GROUP), log, 1, None, parents, height or self.height, ManifestHash(bytes(32))),
            *(simulation.WALL_US, int(body.kind), body.to_wire()),
        )
        return sign_operation(operation, by).raw

    def command(self, by: Identity, action: str = "open-valve", height: int | None = None, **order: Any) -> bytes:
        arguments = order.pop("arguments", {"litres": "3"} if action == "open-valve" else {})
        selector = order.pop("selector", Selector(SelectorKind.DEVICES, devices=(self.board,)))
        once = order.pop("once", random.Random(self.height).randbytes(16))
        return self.operation(CommandOrder(selector, action, arguments, once, **order), by, height)

    def give(self, *raws: bytes) -> OrderResult | None:
        """Hand an order down; return what the board answers, which it has signed."""
        before = len(self.results)
        self.world.gateway.link.send(messages.to_line(line_orders.ORDER, list(raws)))
        self.world.run(4, lambda: len(self.results) > before)
        if len(self.results) == before:
            return None
        return OrderResult.from_wire(cbor.encode([self.results[-1][0], self.board, self.results[-1][1]]))

    def cut_power(self) -> None:
        self.world.boot()
        self.world.run(4)


@pytest.fixture
def operator() -> Identity:
    return identity("operator")


def test_operations_are_named_as_everywhere_else() -> None:
    rng = random.Random(5)
    for length in (0, 1, 127, 128, 129, 256, 600, 2_048):
        data = rng.randbytes(length)
        assert blake2b_256(data, PERSON) == hashlib.blake2b(data, digest_size=32, person=PERSON).digest()


@pytest.mark.slow
def test_an_order_is_done_once_and_what_became_of_it_is_signed(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    raw = site.command(operator)
    first = site.give(raw)
    assert first is not None
    assert (first.state, first.exit, first.output, first.cut) == (CommandState.DONE, 0, b"3 litres", False)
    assert first.order == crypto.digest(PERSON, raw)
    assert first.synchronised
    assert simulation.WALL_US < first.taken_us < simulation.WALL_US + 60_000_000
    assert site.give(raw) == first, "told again, and not done again"
    site.cut_power()
    assert site.give(raw) == first
    assert valve.opened == ["3"]


@pytest.mark.slow
def test_an_interrupted_action_repeats_only_if_allowed(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    once, twice = site.command(operator), site.command(operator, "blink")
    for raw in (once, twice):
        valve.cut = True
        with pytest.raises(PowerCutError):
            site.give(raw)
        valve.cut = False
        site.cut_power()
    unknown, done = site.give(once), site.give(twice)
    assert unknown is not None
    assert (unknown.state, unknown.code) == (CommandState.UNKNOWN, "action_went_down")
    assert done is not None
    assert done.state is CommandState.DONE
    assert (valve.opened, valve.blinked) == (["3"], 2)
    valve.cut = True
    blinking = site.command(operator, "blink")
    with pytest.raises(PowerCutError):
        site.give(blinking)
    for _ in range(2):
        with pytest.raises(PowerCutError):
            site.cut_power()  # the line brings it again
    valve.cut = False
    site.cut_power()
    given_up = site.give(blinking)
    assert given_up is not None
    assert given_up.state is CommandState.UNKNOWN, "three times at most"
    assert valve.blinked == 5


@pytest.mark.slow
@pytest.mark.parametrize("cut_at", range(1, 5))
def test_at_whatever_write_the_power_goes_there_is_one_effect_at_most(
    operator: Identity, valve: Valve, cut_at: int
) -> None:
    site = Site((operator,))
    raw = site.command(operator)
    write, writes = site.world.files.write, [0]

    def cut(name: str, data: bytes) -> None:
        if name == orders.FILE:
            writes[0] += 1
            if writes[0] == (cut_at + 1) // 2 and cut_at % 2:
                raise PowerCutError
        write(name, data)
        if name == orders.FILE and writes[0] == cut_at // 2 and not cut_at % 2:
            raise PowerCutError

    site.world.files.write = cut
    with pytest.raises(PowerCutError):
        site.give(raw)
    site.world.files.write = write
    site.cut_power()
    result = site.give(raw)
    assert result is not None
    assert len(valve.opened) <= 1
    assert (result.state is CommandState.DONE) == (cut_at in {1, 4}), "else it is unknown"
    assert valve.opened == (["3"] if cut_at != 2 else [])


@pytest.mark.slow
def test_unpinned_authors_and_changed_orders_are_refused(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    stranger = identity("stranger")
    refused = site.give(site.command(stranger))
    assert refused is not None
    assert (refused.state, refused.code) == (CommandState.REFUSED, "action_revoked")
    raw = bytearray(site.command(operator))
    raw[-20] ^= 1
    assert site.give(bytes(raw)) is None, "not what its author signed"
    elsewhere = Selector(SelectorKind.DEVICES, devices=(stranger.signing_public,))
    assert site.give(site.command(operator, selector=elsewhere)) is None
    assert site.give(site.command(operator, selector=EVERYBODY)) is None, "a board is named, or it is not meant"
    assert site.give(site.operation(Approval(OperationId(bytes(32))), operator)) is None
    assert orders.FILE not in site.world.files.held, "none of it costs flash"
    assert valve.opened == []


@pytest.mark.slow
def test_a_board_that_pinned_nobody_obeys_nobody(operator: Identity, valve: Valve) -> None:
    site = Site(())
    refused = site.give(site.command(operator))
    assert refused is not None
    assert refused.code == "action_revoked"
    site.world.gateway.link.send(messages.to_line(line_orders.OPERATORS, 1, [operator.signing_public]))
    site.world.run(2)
    keys = site.world.collector.identity
    site.world.gateway.link.send(
        messages.to_line(messages.ENROL, simulation.GROUP, keys.signing_public, keys.noise_public)
    )
    site.world.run(2)
    refused = site.give(site.command(operator))
    assert refused is not None
    assert refused.code == "action_revoked", "its gateway cannot pin anybody once it is enrolled"
    assert valve.opened == []


@pytest.mark.slow
def test_as_many_have_to_agree_as_were_laid_down(operator: Identity, valve: Valve) -> None:
    second, third = identity("second"), identity("third")
    site = Site((operator, second), threshold=2)
    raw = site.command(operator)
    order = OperationId(crypto.digest(PERSON, raw))
    refused = site.give(raw, site.operation(Approval(order), third), site.operation(Approval(order), operator))
    assert refused is not None
    assert refused.code == "action_revoked"
    other = site.operation(Approval(OperationId(bytes(32))), second)
    refused = site.give(raw, other)
    assert refused is not None
    assert refused.code == "action_revoked", "an approval of something else"
    done = site.give(raw, site.operation(Approval(order), second))
    assert done is not None
    assert done.state is CommandState.DONE
    assert valve.opened == ["3"]


@pytest.mark.slow
def test_one_once_id_counts_once_and_what_is_forgotten_does_not_come_back(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    given = [site.command(operator, arguments={"litres": str(number)}) for number in range(12)]
    for raw in given:
        result = site.give(raw)
        assert result is not None
        assert result.state is CommandState.DONE
    for raw in given:
        result = site.give(raw)
        assert result is not None
        assert result.state is CommandState.DONE or result.code == "action_repeated"
    assert valve.opened == [str(number) for number in range(12)]
    twin = site.command(operator, once=b"once and no more")
    assert site.give(twin) is not None
    repeated = site.give(site.command(operator, once=b"once and no more"))
    assert repeated is not None
    assert repeated.code == "action_repeated"
    assert len(site.world.files.held[orders.FILE]) < 4_096


@pytest.mark.slow
def test_records_that_cannot_be_read_have_nothing_done(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    site.world.files.write(orders.FILE, b"\xff")
    unknown = site.give(site.command(operator))
    assert unknown is not None
    assert (unknown.state, unknown.code) == (CommandState.UNKNOWN, "action_records_lost")
    assert site.world.files.held[orders.FILE] == b"\xff"
    assert valve.opened == []


@pytest.mark.slow
def test_a_deadline_is_the_boards_own_clocks_where_it_has_one(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    late = site.give(site.command(operator, deadline_us=simulation.WALL_US + 1_000_000))
    assert late is not None
    assert late.code == "action_late"
    done = site.give(site.command(operator, deadline_us=simulation.WALL_US + 3_600_000_000))
    assert done is not None
    assert done.state is CommandState.DONE
    site.world.board._time = None
    unknown = site.give(site.command(operator, deadline_us=simulation.WALL_US + 3_600_000_000))
    assert unknown is not None
    assert unknown.code == "action_clock"
    assert not unknown.synchronised


@pytest.mark.slow
def test_a_board_does_only_what_its_owner_lists(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    undefined = site.give(site.command(operator, "shut"))
    assert undefined is not None
    assert undefined.code == "action_not_defined"
    broken = site.give(site.command(operator, "break"))
    assert broken is not None
    assert (broken.exit, broken.output) == (1, b"OSError (19)")
    wrong = site.give(site.command(operator, arguments={"gallons": "1"}))
    assert wrong is not None
    assert wrong.exit == 1
    sealed = site.give(site.command(operator, sealed=b"secret"))
    assert sealed is not None
    assert sealed.code == "action_sealed"
    assert not site.world.board.restart_wanted
    restarted = site.give(site.command(operator, "restart"))
    assert restarted is not None
    assert restarted.state is CommandState.DONE
    site.world.run(8, lambda: site.world.board.restart_wanted)
    assert site.world.board.restart_wanted is True
    del sys.modules["my_actions"]
    sys.modules["my_actions"] = None  # type: ignore[assignment]
    nothing = site.give(site.command(operator))
    assert nothing is not None
    assert nothing.code == "action_not_defined"


@pytest.mark.slow
def test_settings_hold_without_a_restart_and_the_last_one_does(operator: Identity) -> None:
    site = Site((operator,))

    def give(key: str, value: Any, height: int) -> OrderResult:
        selector = Selector(SelectorKind.DEVICES, devices=(site.board,))
        result = site.give(site.operation(SettingOrder(selector, key, value), operator, height))
        assert result is not None
        assert result.setting == key
        return result

    settings = site.world.board._settings
    site.world.files.write("covey.json", b'{"interval_seconds": 2}')
    assert give("board.interval_seconds", "0.5", 20).state is CommandState.DONE
    assert settings.interval_us == 500_000
    count = site.world.sensor.count
    site.world.run(2)
    assert site.world.sensor.count >= count + 3
    assert give("board.interval_seconds", 60, 19).code == "setting_overridden"
    assert settings.interval_us == 500_000
    refusals = [("sensors", "{"), ("sensors", '[["scd99", {}]]'), ("series", '["sim:half"]'), ("series", '"x"')]
    for key, value in (("interval_seconds", 0), ("mtu", 64), *refusals):
        refused = give(f"board.{key}", value, 21)
        assert (refused.state, refused.code[:8]) == (CommandState.REFUSED, "setting_"), (key, value)
    assert give("board.interval_seconds", None, 30).state is CommandState.DONE
    assert settings.interval_us == 2_000_000, "its owner's again"
    assert give("board.batch_seconds", 5, 31).state is CommandState.DONE
    assert give("board.batch_seconds", None, 32).state is CommandState.DONE
    assert settings.batch_us == 60_000_000
    assert give("board.sensors", '[["counter", {"name": "anew"}]]', 33).state is CommandState.DONE
    assert [each._name for each in site.world.board._sampling.sensors] == ["anew"]
    assert give("board.series", '["sim:half alarm > 5"]', 34).state is CommandState.DONE
    assert [rule[:2] for rule in site.world.board._sampling.alarms.rules] == [("sim:half", ">")]
    assert give("board.series", None, 35).state is CommandState.DONE
    assert site.world.board._sampling.alarms.rules == []
    assert not site.world.board.restart_wanted
    assert site.world.files.held["covey.json"] == b'{"interval_seconds": 2}'


@pytest.mark.slow
def test_hostile_orders_leave_the_board_as_it_was(operator: Identity, valve: Valve) -> None:
    site = Site((operator,))
    rng = random.Random(7)
    raw = site.command(operator)
    for _ in range(25):
        bent = bytearray(raw)
        for _ in range(rng.randrange(1, 4)):
            bent[rng.randrange(len(bent))] = rng.randrange(256)
        site.world.gateway.link.send(messages.to_line(line_orders.ORDER, [bytes(bent[: rng.randrange(1, len(bent))])]))
        site.world.run(0.2)
    for odd in ([], [b""], [1], [[]], [raw, b""], [raw, 7]):
        site.world.gateway.link.send(messages.to_line(line_orders.ORDER, odd))
        site.world.run(0.5)
    assert valve.opened == []
    assert site.world.board.restart_wanted is False
    site.world.run(5)
    done = site.give(raw)
    assert done is not None
    assert done.state is CommandState.DONE


def test_kinds_are_those_of_the_history() -> None:
    assert (orders._SETTING, orders._COMMAND, orders._APPROVAL) == (
        OperationKind.SETTING,
        OperationKind.COMMAND,
        OperationKind.APPROVAL,
    )
