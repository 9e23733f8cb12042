"""`covey.app.orders.setting_role`: what operators want comes to hold, crosses power cuts, and is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import Device as OpenedDevice
from covey.app.device.device import device_on
from covey.app.orders.owner_rules import OwnerRules
from covey.app.orders.setting_role import (
    ConfiguredLayer,
    OrderedSettings,
    PinnedOperators,
    give_back,
    write_layer_at_start,
)
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.node import Node
from covey.core.now import Now
from covey.core.settings.obedience import NOT_STARTED, RELAY_SILENT, Desired, Obedience
from covey.limits.settings import RELAY_TRIAL_US, SETTING_TRIES, SETTINGS_RESTART_US

_GROUP = GroupId(bytes(32))
_KIM = DeviceKey(bytes([7]) * 32)


class Orders(PinnedOperators):
    """What operators want."""

    def __init__(self) -> None:
        self._wanted: dict[str, Desired] = {}
        self._count = 0

    def give(self, key: str, value: Scalar | None) -> None:
        self._count += 1
        self._wanted[key] = Desired(key, _GROUP, OperationId(self._count.to_bytes(32, "big")), _KIM, value)

    def desired(self, _node: Node) -> list[Desired]:
        return [*self._wanted.values()]

    def hearers(self, _node: Node, _group_id: GroupId) -> list[DeviceKey]:
        return []


class Agent:
    """A device's folder, and one process on it after the other."""

    def __init__(self, folder: StateFolder, orders: Orders) -> None:
        self.folder, self.orders = folder, orders
        self.said: list[str] = []

    @contextmanager
    def process(self) -> Iterator[Process]:
        """Open the device as the agent does, as often as that takes until its configuration is what it should be."""
        identity = self.folder.identity()
        while True:
            with device_on(self.folder, identity, self.folder.configuration.config()) as device:
                if write_layer_at_start(device):
                    continue
                yield Process(self, device)
                return


class Process:
    """One process of the agent; its clock moves by `run`."""

    def __init__(self, agent: Agent, device: OpenedDevice) -> None:
        self._agent, self.device = agent, device
        self._now_us = 1_000_000
        self.restart_asked = False
        self.followed: list[float] = []
        device.live.follow(
            ("telemetry.batch_seconds",), lambda config: self.followed.append(config.telemetry.batch_seconds)
        )
        store = device.store
        obedience = Obedience(
            store.ordered_settings, OwnerRules(device.folder, device.live), device.node.identity.noise
        )
        self._role = OrderedSettings(
            *(store, store.ordered_settings, obedience, agent.orders, ConfiguredLayer(device)),
            self._restart,
            lambda _level, line: agent.said.append(line),
        )

    def _restart(self) -> None:
        self.restart_asked = True

    def run(self, seconds: float = 0) -> None:
        """Let time go by, and take a turn; other processes may have written orders meanwhile."""
        self._now_us += int(seconds * 1e6)
        self.device.node.refresh()
        self._role.turn(self.device.node, Now(self._now_us, 1_789_000_000_000_000 + self._now_us))

    def relay_answers(self, host: str) -> None:
        """Have a relay answer."""
        with self.device.store.transaction():
            self.device.store.conditions.set(f"relay {host}:1883", "up", self._now_us)

    def state(self, key: str) -> tuple[str, str]:
        """Return (state, code)."""
        [found] = [each for each in self.device.store.ordered_settings.all() if each.key == key]
        return found.state.name, found.code


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({"relay.url": "mqtt://127.0.0.1", "operations.settings": ("app.*", "relay.url", "telemetry.*")})
    return Agent(folder, Orders())


def test_a_setting_that_running_parts_follow_holds_at_once(agent: Agent) -> None:
    with agent.process() as process:
        process.run()
        agent.orders.give("telemetry.batch_seconds", 5)
        process.run()
        assert process.followed == [5.0]
        assert process.state("telemetry.batch_seconds") == ("APPLIED", "")
        process.run(60)
        assert not process.restart_asked
    with agent.process() as process:
        assert process.device.config.telemetry.batch_seconds == 5.0
        agent.orders.give("telemetry.batch_seconds", None)
        process.run()
        assert process.followed == [60.0]
    assert agent.folder.configuration.read().origins.keys() == {"relay.url", "operations.settings"}


def test_a_setting_that_needs_a_restart_restarts_the_agent_once(agent: Agent) -> None:
    with agent.process() as process:
        process.run()
        agent.orders.give("telemetry.keep_days", 3)
        agent.orders.give("telemetry.takeover_minutes", 30)
        process.run()
        assert not process.restart_asked, "what comes together restarts it once"
        process.run(SETTINGS_RESTART_US / 1e6)
        assert process.restart_asked
        assert process.state("telemetry.keep_days") == ("RESTARTING", "")
    with agent.process() as process:
        assert process.device.config.telemetry.keep_days == 3.0
        process.run()
        assert process.state("telemetry.keep_days") == process.state("telemetry.takeover_minutes") == ("APPLIED", "")
        process.run(60)
        assert not process.restart_asked


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("telemetry.batch_seconds", "often", "setting_value"),
        ("telemetry.batch_seconds", -1, "setting_value"),
        ("telemetry.batch_secs", 1, "setting_unknown"),
        ("App.Mode", 1, "setting_unknown"),
        ("app.", 1, "setting_unknown"),
        ("sensors.enabled", False, "setting_not_allowed"),
        ("operations.settings", "*", "setting_local"),
        ("relay.password_file", "/etc/shadow", "setting_local"),
        ("relay.url", "http://x", "setting_value"),
    ],
)
def test_a_forbidden_setting_is_refused_in_a_sentence(agent: Agent, key: str, value: Scalar, code: str) -> None:
    before = agent.folder.configuration.config()
    with agent.process() as process:
        agent.orders.give(key, value)
        process.run()
        assert process.state(key) == ("REFUSED", code)
        assert process.device.store.ordered_settings.all()[0].why
    assert agent.folder.configuration.config() == before


def test_the_environment_is_over_what_operators_set(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_TELEMETRY_BATCH_SECONDS", "7")
    with agent.process() as process:
        agent.orders.give("telemetry.batch_seconds", 5)
        process.run()
        assert process.state("telemetry.batch_seconds") == ("REFUSED", "setting_overridden")
        assert process.device.config.telemetry.batch_seconds == 7.0


def test_an_owner_who_shortens_the_list_has_the_own_value_again(agent: Agent) -> None:
    with agent.process() as process:
        agent.orders.give("telemetry.batch_seconds", 5)
        process.run()
    agent.folder.configuration.change({"operations.settings": ("app.*",)})
    assert agent.folder.configuration.config().telemetry.batch_seconds == 60.0
    with agent.process() as process:
        process.run()
        assert process.state("telemetry.batch_seconds") == ("REFUSED", "setting_not_allowed")


def test_a_relay_that_answers_stays(agent: Agent) -> None:
    agent.orders.give("relay.url", "mqtt://127.0.0.2")
    with agent.process() as process:
        process.run()
        process.relay_answers("127.0.0.1")  # the old one, which proves nothing
        process.run(SETTINGS_RESTART_US / 1e6)
        assert process.restart_asked
        assert process.state("relay.url") == ("TRIED", "")
    with agent.process() as process:
        assert process.device.config.relay.url == "mqtt://127.0.0.2"
        process.run()
        process.run(5)
        assert process.state("relay.url") == ("TRIED", "")
        process.relay_answers("127.0.0.2")
        process.run(5)
        assert process.state("relay.url") == ("APPLIED", "")
        process.run(RELAY_TRIAL_US / 1e6)
        assert process.state("relay.url") == ("APPLIED", "")


def test_the_relay_of_a_running_process_proves_nothing_of_another_one(agent: Agent) -> None:
    with agent.process() as process:
        process.run()
        process.relay_answers("127.0.0.1")
        process.run(SETTINGS_RESTART_US / 2e6)
        agent.orders.give("relay.url", "mqtt://127.0.0.2")
        process.run(1)
        assert process.state("relay.url") == ("TRIED", "")
        process.run(SETTINGS_RESTART_US / 1e6)
        assert process.restart_asked
        process.run(1)
        assert process.state("relay.url") == ("TRIED", "")


def test_a_relay_that_is_silent_goes_back_by_itself(agent: Agent) -> None:
    agent.orders.give("relay.url", "mqtt://127.0.0.2")
    with agent.process() as process:
        process.run()
    with agent.process() as process:
        process.run()
        process.run(RELAY_TRIAL_US / 1e6)
        assert process.state("relay.url") == ("REVERTED", RELAY_SILENT)
        assert process.restart_asked
        assert "relay.url" in agent.said[0]
    with agent.process() as process:
        assert process.device.config.relay.url == "mqtt://127.0.0.1"
        process.run()
        process.run(60)
        assert not process.restart_asked, "the same order is not tried again"


def test_a_silent_relay_that_is_ordered_again_goes_back_all_the_same(agent: Agent) -> None:
    with agent.process() as process:
        process.run()
        agent.orders.give("relay.url", "mqtt://nobody.invalid")
        process.run()
    with agent.process() as process:
        process.run()
        agent.orders.give("relay.url", "mqtt://nobody.invalid")  # nobody who waits for an answer sees why it lacks
        process.run()
        assert process.state("relay.url") == ("TRIED", "")
        process.run(RELAY_TRIAL_US / 1e6 + 1)
        assert process.state("relay.url") == ("REVERTED", RELAY_SILENT)


def test_a_relay_with_which_the_power_goes_again_and_again_goes_back_as_well(agent: Agent) -> None:
    agent.orders.give("relay.url", "mqtt://127.0.0.2")
    with agent.process() as process:
        process.run()
    for _ in range(SETTING_TRIES):
        with agent.process() as process:
            process.run()
            process.run(RELAY_TRIAL_US / 2e6)
            assert process.device.config.relay.url == "mqtt://127.0.0.2"
    with agent.process() as process:
        assert process.state("relay.url") == ("REVERTED", NOT_STARTED)
        assert process.device.config.relay.url == "mqtt://127.0.0.1"


def test_a_setting_that_prevents_the_start_is_reverted(agent: Agent) -> None:
    agent.orders.give("telemetry.group", "5f" * 32)
    with agent.process() as process:
        process.run()
    with agent.process() as process:
        assert give_back(process.device, "no such group")
        assert not give_back(process.device, "an owner's own mistake")
    with agent.process() as process:
        assert process.device.config.telemetry.group == ""
        assert process.state("telemetry.group") == ("REVERTED", NOT_STARTED)


@pytest.mark.parametrize("left", ["", "{}", "garbage", '{"telemetry.batch_seconds": {"value": 9}}', "[1]"])
def test_whatever_a_power_cut_leaves_of_the_layer_the_next_start_puts_right(agent: Agent, left: str) -> None:
    with agent.process() as process:
        agent.orders.give("telemetry.batch_seconds", 5)
        process.run()
    agent.folder.configuration.write_ordered(left)
    with agent.process() as process:
        assert process.device.config.telemetry.batch_seconds == 5.0
