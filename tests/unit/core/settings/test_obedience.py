"""What a device takes up of what operators want, what it refuses, and what goes back by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.sqlite.orders.settings import OrderedSettingTable
from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, Incarnation, NoisePublic, OperationId
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.obedience import NOT_STARTED, RELAY_SILENT, Desired, Effect, Obedience, Objection
from covey.core.settings.secrets import SealedValue, seal_value
from covey.core.settings.states import SettingState
from covey.errors import SettingError
from covey.limits.settings import (
    MAXIMUM_REPORTED_SETTINGS,
    MAXIMUM_SETTING_WHY_BYTES,
    MAXIMUM_SETTINGS_GONE_BACK,
    SETTING_TRIES,
)
from tests.fleet import open_store

_GROUP = GroupId(bytes(32))
_KIM = DeviceKey(bytes([7]) * 32)


class _Owner:
    """Lets operators set a few keys."""

    def __init__(self) -> None:
        self.effects = {
            "quick": Effect.AT_ONCE,
            "slow": Effect.AT_A_START,
            "relay": Effect.ON_TRIAL,
            "app.mode": Effect.BY_A_PROGRAM,
        }
        self.allowed = set(self.effects)

    def check(self, key: str, value: Scalar | None) -> None:
        if key not in self.allowed:
            raise SettingError(f"{key} may not be set", "setting_not_allowed")
        if value == "wrong":
            raise SettingError("no value " + "x" * 1000, "setting_value")

    def effect(self, key: str) -> Effect:
        return self.effects.get(key, Effect.AT_ONCE)


class Site:
    """One device's rules over its real table."""

    def __init__(self, table: OrderedSettingTable) -> None:
        self.table, self.owner = table, _Owner()
        self.noise = NoiseKeys((NoiseKey.of(bytes([1]) * 32),))
        self.obedience = Obedience(table, self.owner, self.noise)
        self._orders = 0
        self.wanted: dict[str, Desired] = {}

    def order(self, key: str, value: Scalar | None) -> list[str]:
        """Have an operator want something; return what changed."""
        self._orders += 1
        operation = OperationId(self._orders.to_bytes(32, "big"))
        self.wanted[key] = Desired(key, _GROUP, operation, _KIM, value)
        return self.obey()

    def order_secret(self, key: str, value: str, recipient: NoisePublic) -> list[str]:
        """Have an operator want a value that only one key can read; return what changed."""
        self._orders += 1
        about = (_GROUP, _KIM, key, EVERYBODY)
        sealed = SealedValue.of(seal_value(value, [recipient], *about, random.Random(self._orders).randbytes), *about)
        operation = OperationId((1_000 + self._orders).to_bytes(32, "big"))
        self.wanted[key] = Desired(key, _GROUP, operation, _KIM, None, sealed)
        return self.obey()

    def obey(self, *, rejudge: bool = False) -> list[str]:
        return self.obedience.obey(self.wanted.values(), 1, rejudge=rejudge)

    def state(self, key: str) -> tuple[str, Scalar | None]:
        """Return (state, value that holds of the operators')."""
        [found] = [each for each in self.table.all() if each.key == key]
        return found.state.name, None if found.held is None else found.held.value


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store:
        yield Site(store.ordered_settings)


def test_a_quick_setting_applies_at_once(site: Site) -> None:
    assert site.order("quick", 5) == ["quick"]
    assert site.state("quick") == ("APPLIED", 5)
    assert site.obey() == [], "nothing has changed"
    site.order("quick", None)
    assert site.state("quick") == ("APPLIED", None)


@pytest.mark.parametrize(
    ("key", "value", "code"), [("x", 1, "setting_not_allowed"), ("quick", "wrong", "setting_value")]
)
def test_a_refused_setting_keeps_the_previous_value(site: Site, key: str, value: Scalar, code: str) -> None:
    site.order("quick", 5)
    site.order(key, value)
    [refused] = [each.reported for each in site.table.all() if each.key == key]
    assert (refused.state, refused.code) == (SettingState.REFUSED, code)
    assert 0 < len(refused.why.encode()) <= MAXIMUM_SETTING_WHY_BYTES
    assert site.state("quick")[1] == 5


def test_an_owner_who_thinks_better_of_it_is_heeded_at_the_next_start(site: Site) -> None:
    site.order("quick", 5)
    site.owner.allowed.clear()
    assert site.obey() == []
    assert site.obey(rejudge=True) == ["quick"]
    assert site.state("quick") == ("REFUSED", None)
    site.owner.allowed.add("quick")
    assert site.obey(rejudge=True) == ["quick"]
    assert site.state("quick") == ("APPLIED", 5)


def test_a_slow_setting_applies_after_a_start(site: Site) -> None:
    site.order("slow", 5)
    assert site.state("slow") == ("RESTARTING", 5)
    site.obedience.begin(2)
    assert site.obedience.prove(2, (SettingState.RESTARTING,)) == ["slow"]
    assert site.state("slow") == ("APPLIED", 5)


@pytest.mark.parametrize("key", ["slow", "relay"])
def test_a_setting_that_stops_the_agent_is_reverted(site: Site, key: str) -> None:
    site.order(key, 4)
    site.obedience.prove(1, tuple(SettingState))
    site.order(key, 5)
    for _ in range(SETTING_TRIES):  # power cuts, or crashes: nothing says that it was well
        site.obedience.begin(2)
        assert site.state(key)[1] == 5
    site.obedience.begin(2)
    assert site.state(key) == ("REVERTED", 4)
    assert [each.code for each in site.table.all()] == [NOT_STARTED]
    assert site.obey(rejudge=True) == [], "the same order is not tried for ever"
    site.order(key, 6)
    assert site.state(key)[1] == 6


def test_a_reverted_value_ends_with_its_permission(site: Site) -> None:
    site.order("relay", "here")
    site.obedience.prove(1, tuple(SettingState))
    site.order("relay", "there")
    site.obedience.revert(Objection(RELAY_SILENT, "no answer"), 2)
    assert site.state("relay") == ("REVERTED", "here")
    site.owner.allowed.clear()
    assert site.obey(rejudge=True) == ["relay"]
    assert site.state("relay") == ("REFUSED", None)


def test_a_relay_that_does_not_answer_goes_back_to_the_one_before(site: Site) -> None:
    site.order("relay", "here")
    site.obedience.begin(2)
    assert site.obedience.prove(2, (SettingState.RESTARTING,)) == [], "that the agent started is not enough"
    assert site.obedience.prove(3, (SettingState.TRIED,)) == ["relay"]
    site.order("relay", "there")
    site.order("relay", "elsewhere")
    why = Objection(RELAY_SILENT, "no answer")
    assert site.obedience.revert(why, 4, (SettingState.TRIED,)) == ["relay"]
    assert site.state("relay") == ("REVERTED", "here"), "which is the last that has answered"


@pytest.mark.parametrize("meanwhile", ["its group was left", "another order had taken its place"])
def test_a_reverted_setting_is_not_tried_again(site: Site, meanwhile: str) -> None:
    site.order("relay", "nowhere")
    site.obedience.revert(Objection(RELAY_SILENT, "no answer"), 2)
    cut_off = site.wanted.pop("relay")
    if meanwhile == "another order had taken its place":
        site.order("relay", "there")
        site.obedience.prove(3, tuple(SettingState))
    else:
        assert site.obey() == ["relay"]
    site.wanted["relay"] = cut_off
    assert site.obey() == ["relay"]
    assert site.state("relay") == ("REVERTED", "there" if "order" in meanwhile else None)
    [reported] = [each.reported for each in site.table.all()]
    assert reported.code == RELAY_SILENT
    assert reported.why == "it was reverted here before; to try again, set it again"
    assert site.obey(rejudge=True) == []
    site.order("relay", "nowhere")
    assert site.state("relay") == ("TRIED", "nowhere"), "another order is"


def test_only_the_last_orders_that_went_back_are_remembered(site: Site) -> None:
    given = []
    for _ in range(MAXIMUM_SETTINGS_GONE_BACK + 1):
        site.order("relay", "nowhere")
        given.append(site.wanted["relay"])
        site.obedience.revert(Objection(RELAY_SILENT, "no answer"), 2)
    for order, state in (given[-1], "REVERTED"), (given[0], "TRIED"):
        site.wanted.clear()
        site.obey()
        site.wanted["relay"] = order
        site.obey()
        assert site.state("relay")[0] == state


def test_a_setting_no_longer_wanted_is_forgotten(site: Site) -> None:
    site.order("quick", 5)
    site.wanted.clear()
    assert site.obey() == ["quick"]
    assert site.table.all() == []


def test_a_programs_setting_is_handed_over(site: Site) -> None:
    site.order("app.mode", "eco")
    assert site.state("app.mode") == ("HANDED_OVER", "eco")


@pytest.mark.slow
def test_a_device_bears_only_so_many(site: Site) -> None:
    site.owner.allowed |= {f"k{number:04}" for number in range(MAXIMUM_REPORTED_SETTINGS * 2)}
    for number in range(MAXIMUM_REPORTED_SETTINGS + 5):
        site.order(f"k{number:04}", number)
    assert len(site.table.all()) == MAXIMUM_REPORTED_SETTINGS


def test_a_secret_is_handed_over_and_never_reported(site: Site) -> None:
    site.order_secret("app.mode", "hunter2", site.noise.current.public)
    assert site.state("app.mode") == ("HANDED_OVER", "hunter2")
    [held] = site.table.all()
    assert held.secret
    assert held.reported.value is None
    assert "hunter2" not in repr(site.table.all()) + repr(site.wanted)


def test_a_secret_in_force_outlives_its_sealing_key(site: Site) -> None:
    site.order_secret("app.mode", "hunter2", site.noise.current.public)
    site.noise.take((NoiseKey.of(bytes([2]) * 32),))
    assert site.obey(rejudge=True) == []
    assert site.state("app.mode") == ("HANDED_OVER", "hunter2")
    site.owner.allowed.clear()
    assert site.obey(rejudge=True) == ["app.mode"]
    assert site.state("app.mode") == ("REFUSED", None)


def test_a_secret_for_others_is_refused_and_what_held_goes_on(site: Site) -> None:
    site.order_secret("app.mode", "hunter2", site.noise.current.public)
    other = NoiseKey.of(bytes([9]) * 32).public
    site.order_secret("app.mode", "hunter3", other)
    site.order_secret("quick", "hunter4", site.noise.current.public)
    reported = {each.key: each.reported for each in site.table.all()}
    assert (reported["app.mode"].state, reported["app.mode"].code) == (SettingState.REFUSED, "setting_sealed")
    assert site.state("app.mode") == ("REFUSED", "hunter2")
    assert reported["app.mode"].value is None, "what goes on is as secret as it was"
    assert (reported["quick"].state, reported["quick"].code) == (SettingState.REFUSED, "setting_not_secret")
    assert site.obey(rejudge=True) == []
    site.noise.take((NoiseKey.of(bytes([9]) * 32),))
    assert site.obey(rejudge=True) == ["app.mode"]
    assert site.state("app.mode") == ("HANDED_OVER", "hunter3")
