"""Settings for operators: set them, and show who set what, with which results."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.orders.fleet import Scope, Targets, Together, distinct, give, targets
from covey.app.orders.operators import check_operator, check_supported, selected
from covey.app.orders.owner_rules import BOARD_KEYS, check_setting
from covey.app.orders.setting_role import PinnedOperators, group_settings
from covey.config.ordered import APPLICATION_PREFIX
from covey.config.settings import settings
from covey.core.actions.results import CommandState
from covey.core.group.features import Feature
from covey.core.group.manifest import COLLECTOR
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import ONCE_BYTES, Scalar, SettingOrder
from covey.core.ids import DeviceKey, GroupId, OperationId, device_name, labelled_name, printable
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.desired import GivenOrder, read_order, reported
from covey.core.settings.obedience import ONLY_OPEN
from covey.core.settings.secrets import seal_value
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.errors import LocalError, SettingError
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest, Member

_WORDS = {
    SettingState.APPLIED: "applied",
    SettingState.RESTARTING: "restarting",
    SettingState.TRIED: "on trial",
    SettingState.HANDED_OVER: "handed over",
    SettingState.REFUSED: "refused",
    SettingState.REVERTED: "reverted",
    SettingState.REPLACED: "replaced",
}
OUTCOMES = (
    *("applied", "restarting", "on trial", "handed over", "refused", "reverted"),
    *("waiting", "elsewhere", "replaced"),
)
"""What has become of a setting on a device, as people count it: what the device reports; `waiting` where it has not
reported, `elsewhere` where it does not report to this device, and `replaced` where a later order applies to it. Of a
device in several groups of a plan the first of these counts."""

REVERTED = SettingState.REVERTED.name.lower()
"""What a device says of a setting that has gone back by itself."""

REPLACED = SettingState.REPLACED.name.lower()
"""What a device says of a setting in place of which it has that of another of its groups."""


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """What operators want of one device, and what it says: `state` is None where it has not said anything yet.

    `wanted` is None where the device's own value is to hold. `agrees` says that it has done what is wanted of it.
    """

    device: str
    name: str
    label: str
    key: str
    wanted: Scalar | None
    sealed: bool
    operation: str
    by: str
    state: str | None
    value: Scalar | None
    code: str
    why: str
    reported_at_us: int | None
    agrees: bool

    @property
    def settled(self) -> bool:
        """Whether it has done what is wanted, or never will."""
        return self.agrees or self.state in {"refused", REVERTED, REPLACED}


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One order of the history: operator, value, targets, time by the author's clock, and whether it counts here.

    `reverted` names the devices that have reverted it by themselves, as far as they have reported here.
    """

    id: str
    author: str
    label: str
    made_at_us: int
    selector: str
    key: str
    value: Scalar | None
    sealed: bool
    counts: bool
    reverted: tuple[str, ...] = ()


def read_value(key: str, text: str) -> Scalar:
    """Return what a person wrote as a value: by the setting's type; of a program's, as JSON, else as it is.

    Raises:
        SettingError: there is no such setting, or it is no value of it.
    """
    about = settings().get(key)
    found: object = text
    if about is None or isinstance(about.default, bool | int | float):
        try:
            found = json.loads(text)
        except ValueError:
            found = text
    value = found if isinstance(found, str | bool | int) else text  # a fraction travels as its text
    check_setting(key, value)
    return value


def give_setting(device: Device, scope: Scope, key: str, value: Scalar | None, selector: str) -> tuple[Together, int]:
    """Order a value of a key for a selector's devices; None: their own. Return the number of devices.

    A value is unset in the groups in which it is set.

    Raises:
        LocalError: by a device that is no operator; or there is nothing to unset.
        SettingError: no such setting or value, or it has been a secret for one of the devices.
        UsageError: the selector is invalid, or selects nothing.
    """
    check_setting(key, value)
    found = _targets(device, scope, key, selector)
    held = [group_settings(device, each.group).of(each.members).values() for each in found]
    if value is not None:
        for there in held:
            _check_open(there, key)
    else:
        is_set = [any(key in each for each in there) for there in held]
        found = [each for each, held_there in zip(found, is_set, strict=True) if held_there]
    if not found:
        raise LocalError(
            f"no operator has set {key} for {selector}, as far as this device knows",
            hint=f"'covey setting history {key}' shows who set it, and for which devices",
        )
    once = secrets.token_bytes(ONCE_BYTES)
    orders = [(each.group, SettingOrder(each.selector, key, value, once=once)) for each in found]
    return give(device, scope, orders, selector), len(distinct(found))


def _targets(device: Device, scope: Scope, key: str, selector: str) -> list[Targets]:
    """Return whom a setting is for, in the groups that this device may order."""
    found = targets(scope.groups, selector)
    for each in found:
        check_operator(device, each.group)
    members = distinct(found)
    check_supported(members, Feature.SETTINGS)
    _check_kind(members, key)
    return found


def give_secret(device: Device, scope: Scope, key: str, secret: str, selector: str) -> tuple[Together, int]:
    """Order a value of a program's setting that only a selector's present devices can read; return their number.

    Raises:
        LocalError: by a device that is no operator.
        SettingError: no program's setting, or a value that is too long.
        UsageError: the selector is invalid, or selects nothing.
    """
    if not key.startswith(APPLICATION_PREFIX):
        raise SettingError(f"only a program's own setting can be secret, not {key}", ONLY_OPEN, hint="app.NAME")
    check_setting(key, secret)
    if not secret:
        raise SettingError("a secret must not be empty", "setting_value", hint="to remove it: covey setting unset")
    found, orders = _targets(device, scope, key, selector), []
    author, once = device.node.identity.signing_public, secrets.token_bytes(ONCE_BYTES)
    for each in found:
        recipients = [member.keys.noise_public for member in each.members]
        sealed = seal_value(secret, recipients, each.group.group_id, author, key, each.selector, os.urandom)
        order = SettingOrder(each.selector, key, sealed=sealed, once=once)
        if len(order.to_wire()) > MAXIMUM_OPERATION_BODY_BYTES:
            raise SettingError(
                "too many devices are named individually for a secret of this length", "setting_value", hint=_FEWER
            )
        orders.append((each.group, order))
    return give(device, scope, orders, selector), len(distinct(found))


_FEWER = "use --for all, or --for label:NAME"


def _check_kind(members: list[Member], key: str) -> None:
    """Check that boards get boards' settings, and others get others'."""
    wrong = [each for each in members if each.is_board != (key in BOARD_KEYS)]
    if wrong:
        name = printable(wrong[0].label or device_name(wrong[0].keys.signing_public))
        what = (
            f"{name} is a board, which has {', '.join(BOARD_KEYS)}" if wrong[0].is_board else f"{name} is not a board"
        )
        raise SettingError(f"{key}: {what}", "setting_unknown", hint="name boards by label: --for BOARD")


def _check_open(held: Iterable[Mapping[str, GivenOrder]], key: str) -> None:
    """Refuse to publish for all a key whose value has been secret."""
    for orders in held:
        if key in orders and orders[key].order.sealed is not None:
            raise SettingError(
                f"{key} is a secret, and all members could read this value",
                "setting_secret",
                hint="add --secret to seal it; to make it open, run 'covey setting unset' first",
            )


def differences(
    device: Device, groups: Sequence[GroupManifest], selector: str, key: str = ""
) -> list[SettingDifference]:
    """Return for every device that a selector names, and every key, what is wanted of it and what it says.

    Boards are among all devices here, although no order for all devices is for them.

    Raises:
        UsageError: the selector is none, or names nobody.
    """
    reports = ReportedSettings(device)
    listed = [Targets(each, EVERYBODY, each.members) for each in groups]
    return [
        found
        for each in (listed if selector == str(EVERYBODY) else targets(groups, selector))
        for found in _differences_in(reports, each.group, each.members, key)
    ]


def once_each(found: Sequence[SettingDifference]) -> list[SettingDifference]:
    """Return of each device one difference: of those in several groups one that it has done, else one that is open."""
    first: dict[str, SettingDifference] = {}
    for each in sorted(found, key=lambda each: (not each.agrees, each.settled)):
        first.setdefault(each.device, each)
    return [each for each in found if first[each.device] is each]


def _differences_in(
    reports: ReportedSettings, manifest: GroupManifest, members: Sequence[Member], key: str
) -> list[SettingDifference]:
    wanted = group_settings(reports.device, manifest).of(members)
    found = []
    for member in members:
        reported, at_us = reports.of(manifest, member)
        for each, given in sorted(wanted[member.keys.signing_public].items()):
            if each.startswith(key):
                if member.is_board:
                    reported, at_us = _of_board(reports.device, manifest, member, given)
                found.append(_difference(member, given, reported.get(each), at_us))
    return found


class ReportedSettings:
    """What devices report of their settings, as far as this device knows; it reads its own orders once."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._own: dict[GroupId, list[ReportedSetting]] | None = None

    def of(self, manifest: GroupManifest, member: Member) -> tuple[dict[str, ReportedSetting], int | None]:
        """Return a member's settings by key, and when it reported them (microseconds since 1970; None: it has not)."""
        device, at_us = self.device, None
        found: Iterable[ReportedSetting] = ()
        if member.keys.signing_public == device.node.identity.signing_public:
            if self._own is None:
                held = device.store.ordered_settings.all()
                self._own = reported(held, PinnedOperators(device).desired(device.node)) if held else {}
            found, at_us = self._own.get(manifest.group_id, ()), device.now().wall_us
        elif (kept := device.store.setting_reports.of(manifest.group_id, member.keys.signing_public)) is not None:
            found, at_us = SettingReport.from_wire(kept.body).settings, kept.received_at_us
        return {each.key: each for each in found}, at_us


def _of_board(
    device: Device, manifest: GroupManifest, member: Member, given: GivenOrder
) -> tuple[dict[str, ReportedSetting], int | None]:
    order = given.operation.id
    kept = device.store.order_results.of_device(manifest.group_id, order, member.keys.signing_public)
    if kept is None:
        return {}, None
    key, result = given.order.key, kept.result
    if result.state is CommandState.DONE:
        return {key: ReportedSetting(key, order, SettingState.APPLIED, given.order.value)}, kept.received_at_us
    refused = ReportedSetting(key, order, SettingState.REFUSED, None, result.code, result.why)
    return {key: refused}, kept.received_at_us


def _difference(
    member: Member, given: GivenOrder, reported: ReportedSetting | None, at_us: int | None
) -> SettingDifference:
    current = reported is not None and reported.operation == given.operation.id
    key = member.keys.signing_public
    return SettingDifference(
        device=key.hex(),
        name=device_name(key),
        label=member.label,
        key=given.order.key,
        wanted=given.order.value,
        sealed=given.order.sealed is not None,
        operation=given.operation.id.hex(),
        by=device_name(given.operation.author),
        state=reported.state.name.lower() if reported is not None and current else None,
        value=reported.value if reported is not None and current else None,
        code=reported.code if reported is not None and current else "",
        why=reported.why if reported is not None and current else "",
        reported_at_us=at_us,
        agrees=reported is not None and current and reported.state is SettingState.APPLIED,
    )


def setting_history(device: Device, manifest: GroupManifest, key: str) -> list[SettingEntry]:
    """Return the orders for a key, in the history's order."""
    found = group_settings(device, manifest)
    counting = {each.id for each in found.weighed.orders if each.counts}
    reverted = _reverted(ReportedSettings(device), manifest, key)
    entries = []
    for stored in device.store.operations.of_kind(manifest.group_id, OperationKind.SETTING):
        given = read_order(stored.raw)
        operation, order = given.operation, given.order
        if order.key != key:
            continue
        member = manifest.member(operation.author)
        entries.append(
            SettingEntry(
                id=operation.id.hex(),
                author=operation.author.hex(),
                label="" if member is None else member.label,
                made_at_us=operation.made_at_us,
                selector=str(order.selector),
                key=order.key,
                value=order.value,
                sealed=order.sealed is not None,
                counts=operation.id in counting,
                reverted=tuple(reverted.get(operation.id, ())),
            )
        )
    return entries


def outcomes_by_device(
    reports: ReportedSettings, manifest: GroupManifest, only: Collection[str]
) -> dict[str, dict[DeviceKey, str]]:
    """Return for each of these setting orders that is in force, by its id, its outcome (`OUTCOMES`) on each device."""
    device = reports.device
    found = group_settings(device, manifest)
    here = manifest.member(device.node.identity.signing_public)
    hears = here is not None and (here.keys.signing_public in found.weighed.operators or COLLECTOR in here.capabilities)
    wanted = found.of(manifest.members)
    said_by = {member.keys.signing_public: reports.of(manifest, member)[0] for member in manifest.members}
    outcomes: dict[str, dict[DeviceKey, str]] = {}
    for weighed in found.weighed.orders:
        asked = weighed.counts and weighed.id.hex() in only
        raw = device.store.operations.raw(manifest.group_id, weighed.id) if asked else None
        if raw is None:
            continue
        given = read_order(raw)
        ends = outcomes.setdefault(weighed.id.hex(), {})
        for member in selected(manifest, given.order.selector):
            if member.is_board != (given.order.key in BOARD_KEYS):
                continue
            key = member.keys.signing_public
            of_member = said_by[key] if not member.is_board else _of_board(device, manifest, member, given)[0]
            said = of_member.get(given.order.key)
            if wanted[key].get(given.order.key, given).operation.id != weighed.id:
                ends[key] = _WORDS[SettingState.REPLACED]
            elif said is not None and said.operation == weighed.id:
                ends[key] = _WORDS[said.state]
            else:
                ends[key] = "waiting" if hears else "elsewhere"
    return outcomes


def _reverted(reports: ReportedSettings, manifest: GroupManifest, key: str) -> dict[OperationId, list[str]]:
    found: dict[OperationId, list[str]] = {}
    for member in manifest.members:
        reported = reports.of(manifest, member)[0].get(key)
        if reported is not None and reported.state is SettingState.REVERTED:
            found.setdefault(reported.operation, []).append(labelled_name(member.name, member.label))
    return found
