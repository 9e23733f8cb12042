"""What a device does with the settings that operators give it (docs/protocol/history.md, "Settings").

1. A value that the owner's configuration does not allow, or that is invalid, is refused, and the earlier value stays.
   Accepted values are judged again at each start, and dropped if the owner no longer allows them, even if another order
   has reverted to them.
2. A value applies at once if a running part supports that, otherwise at the next start of the agent, which follows
   immediately.
3. A value that needs a start has to prove itself: the agent starts with it, within `SETTING_TRIES`; for a relay it must
   also answer within `RELAY_TRIAL_US` of running. Otherwise the earlier value returns. Tries are durable, so a crash
   and a power cut count as one. A reverted value is not tried again, even if it did not count for a while because its
   group was left and joined again, or another order had replaced it.
4. A value for an owner's program is handed over, and the program reports what it did with it.
5. A secret value is opened once, when it is accepted, and only for a program of the owner's; it is not shown to anybody
   else. So it stays usable after the key that it was sealed for is gone.
6. An order that no longer applies is forgotten, and an unset key returns to the device's own files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from covey.core.crypto import NoiseKeys
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.settings.ordered import REFUSED_BY_PROGRAM, HeldValue, OrderedSetting
from covey.core.settings.secrets import SealedValue
from covey.core.settings.states import SettingState
from covey.errors import LocalError, RemoteError, SettingError
from covey.limits.settings import (
    MAXIMUM_REPORTED_SETTINGS,
    MAXIMUM_SETTING_WHY_BYTES,
    SETTING_TRIES,
)

if TYPE_CHECKING:
    from covey.core.records.orders import OrderedSettingRecords


@dataclass(frozen=True, slots=True)
class Outweighed:
    """An order of another group for the same key; `agrees`: it asks for the same open value as the one that holds."""

    group_id: GroupId
    operation: OperationId
    agrees: bool


@dataclass(frozen=True, slots=True)
class Desired:
    """What operators want of this device: a value of a key, or its own one again (None)."""

    key: str
    group_id: GroupId
    operation: OperationId
    author: DeviceKey
    value: Scalar | None = field(repr=False)
    sealed: SealedValue | None = None
    """In place of a value that only some can read."""
    outweighs: tuple[Outweighed, ...] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """What stands against a setting: a code for programs, and a sentence for people."""

    code: str
    why: str


NOT_STARTED = "not_started"
RELAY_SILENT = "relay_silent"
SEALED = "setting_sealed"
ONLY_OPEN = "setting_not_secret"
_GONE_BACK_BEFORE = "it was reverted here before; to try again, set it again"


class Effect(Enum):
    """How a value takes effect."""

    AT_ONCE = auto()
    AT_A_START = auto()
    ON_TRIAL = auto()
    BY_A_PROGRAM = auto()


class Owner(Protocol):
    """What the device's owner has laid down."""

    def check(self, key: str, value: Scalar | None) -> None:
        """Check that operators may set a key, and that the value is one.

        Raises:
            LocalError: why not.
        """

    def effect(self, key: str) -> Effect:
        """Return how a value of a key takes effect."""


class Obedience:
    """The rules, over what is stored. All of it happens inside of a transaction."""

    def __init__(self, records: OrderedSettingRecords, owner: Owner, keys: NoiseKeys) -> None:
        self._records = records
        self._owner = owner
        self._keys = keys

    def begin(self, now_us: int) -> None:
        """Count a start of the agent as a try of what has to prove itself (rule 3)."""
        for given in self._records.all():
            if not given.unproven:
                continue
            if given.tries >= SETTING_TRIES:
                why = f"the agent did not start with it in {given.tries} starts"
                self._revert(given, Objection(NOT_STARTED, why), now_us)
            else:
                self._records.put(replace(given, tries=given.tries + 1), now_us)

    def revert(self, why: Objection, now_us: int, states: Iterable[SettingState] = tuple(SettingState)) -> list[str]:
        """Give back what has not proved itself; return the keys."""
        given_back = [given for given in self._records.all() if given.unproven and given.state in states]
        for given in given_back:
            self._revert(given, why, now_us)
        return [given.key for given in given_back]

    def prove(self, now_us: int, states: Iterable[SettingState]) -> list[str]:
        """Note that what is in these states has proved itself; return the keys."""
        proven = [given for given in self._records.all() if given.unproven and given.state in states]
        for given in proven:
            self._records.put(replace(given, state=SettingState.APPLIED, before=None, tries=0), now_us)
        return [given.key for given in proven]

    def obey(self, desired: Iterable[Desired], now_us: int, *, rejudge: bool = False) -> list[str]:
        """Take up what operators want; return the keys of which something has changed.

        `rejudge` judges what was judged before once more: the owner may have laid down something else since.
        """
        wanted = {each.key: each for each in sorted(desired, key=lambda each: each.key)[:MAXIMUM_REPORTED_SETTINGS]}
        known = {given.key: given for given in self._records.all()}
        changed = [key for key in known if key not in wanted]
        for key in changed:
            self._records.forget(key, now_us)  # rule 5
        for key, each in wanted.items():
            given = known.get(key)
            if given is None or given.operation != each.operation or (rejudge and self._judged_otherwise(given, each)):
                self._records.put(self._taken_up(each, given), now_us)
                changed.append(key)
        return changed

    def _judged_otherwise(self, given: OrderedSetting, desired: Desired) -> bool:
        _, objection = self._judged(desired, given)
        if given.state is not SettingState.REFUSED or given.code == REFUSED_BY_PROGRAM:
            return objection is not None
        return objection is None or objection.code != given.code

    def _judged(self, desired: Desired, given: OrderedSetting | None) -> tuple[HeldValue | None, Objection | None]:
        try:
            self._owner.check(desired.key, desired.value)
            value = desired.value if desired.sealed is None else self._opened(desired, desired.sealed, given)
        except LocalError as error:
            return None, Objection(error.code, str(error))
        except RemoteError:
            return None, Objection(SEALED, "its value is sealed for other devices")
        if value is None:
            return None, None
        return HeldValue(value, desired.author, secret=desired.sealed is not None), None

    def _opened(self, desired: Desired, sealed: SealedValue, given: OrderedSetting | None) -> Scalar:
        """Return a secret value: the one that is held, or what the order says (rule 5).

        Raises:
            SettingError: it is no program's.
            RemoteError: it cannot be opened.
        """
        if self._owner.effect(desired.key) is not Effect.BY_A_PROGRAM:
            raise SettingError("only a program's own setting (app.…) can be secret", ONLY_OPEN)
        if given is not None and given.operation == desired.operation and given.held is not None and given.taken_up:
            return given.held.value
        return sealed.open(self._keys)

    def _taken_up(self, desired: Desired, given: OrderedSetting | None) -> OrderedSetting:
        held = None if given is None else given.before if given.unproven else given.held
        found = OrderedSetting(
            desired.key, desired.group_id, desired.operation, desired.author, SettingState.APPLIED, held
        )
        new, objection = self._judged(desired, given)
        if objection:
            judged_before = given is not None and given.operation == desired.operation
            found = replace(found, held=None if judged_before else held)
            return replace(found, state=SettingState.REFUSED, code=objection.code, why=_short(objection.why))
        if code := self._records.gone_back(desired.operation):
            return replace(found, state=SettingState.REVERTED, code=code, why=_GONE_BACK_BEFORE)
        effect = self._owner.effect(desired.key)
        if effect is Effect.BY_A_PROGRAM:
            return replace(found, state=SettingState.HANDED_OVER, held=new)
        same = (held and held.value) == (new and new.value)
        if same or effect is Effect.AT_ONCE:
            return replace(found, held=new)
        state = SettingState.TRIED if effect is Effect.ON_TRIAL else SettingState.RESTARTING
        goes_on = given is not None and given.unproven and (given.held and given.held.value) == (new and new.value)
        return replace(found, state=state, held=new, before=held, tries=given.tries if given and goes_on else 0)

    def _revert(self, given: OrderedSetting, objection: Objection, now_us: int) -> None:
        given_back = replace(given, state=SettingState.REVERTED, held=given.before, before=None, tries=0)
        self._records.put(replace(given_back, code=objection.code, why=_short(objection.why)), now_us)
        self._records.note_gone_back(given.operation, objection.code)


def _short(text: str) -> str:
    return text.encode()[:MAXIMUM_SETTING_WHY_BYTES].decode(errors="ignore")
