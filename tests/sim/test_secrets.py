"""Secret settings over a bad network: devices are called otherwise, restored and restarted; operators come and go.

Whoever a value was sealed for holds it while it is wanted; whoever it was not for tells that it cannot, and goes on
with what held before. Nobody else has it anywhere in its state, and nobody has what holds no more.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from covey.app.orders import setting_role
from covey.core.crypto import NoiseKeys
from covey.core.history.orders import Scalar
from covey.core.settings.ordered import OrderedSetting
from covey.core.settings.secrets import SealedValue
from covey.core.settings.states import ReportedSetting
from covey.errors import RemoteError
from tests.examples import parameters
from tests.proof import a_world_notices
from tests.sim.test_orders import OrderWorld, run

_SEEDS_OF_MISTAKES = (2, 9, 24, 12, 13, 0)


class SecretWorld(OrderWorld):
    """The world of orders, in which most of what operators set is secret."""

    keys = ("app.x", "app.y")
    secret_keys = keys
    values = (None, "one", "two", "three")


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_role, "RELAY_TRIAL_US", 20_000_000)


@pytest.mark.parametrize("seed", parameters(range(3), quick=0, plain=1))
def test_only_the_intended_devices_hold_a_secret(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, SecretWorld)


def _says_what_it_holds(given: OrderedSetting) -> ReportedSetting:
    value = None if given.held is None else given.held.value
    return ReportedSetting(given.key, given.operation, given.state, value, given.code, given.why)


def _opens_anything(sealed: SealedValue, keys: NoiseKeys) -> Scalar:
    try:
        return _OPEN(sealed, keys)
    except RemoteError:
        return ""


_OPEN = SealedValue.open
_MISTAKES: dict[str, tuple[object, str, object]] = {
    "a secret is reported": (OrderedSetting, "reported", property(_says_what_it_holds)),
    "what cannot be opened is taken for empty": (SealedValue, "open", _opens_anything),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_secrets_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, partial(run, makes=SecretWorld), tmp_path, _SEEDS_OF_MISTAKES)
