"""What has become of a command on each device, as an operator or a collector sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from covey.app.history.history import pick_operation
from covey.app.orders.operators import OrderEntry, judged, operator_keys, selected
from covey.core.actions.obeying import obeyers
from covey.core.actions.received import addressees, without_output
from covey.core.actions.reporting import hearers
from covey.core.actions.results import CommandState, KeptResult
from covey.core.group.device_labels import devices_meant
from covey.core.history.bodies import read_body
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import CommandOrder
from covey.core.ids import DeviceKey, OperationId, device_name
from covey.core.presence.status import condition
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest

Outcome: TypeAlias = Literal["done", "failed", "refused", "unknown", "asleep", "waiting", "elsewhere", "excluded"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""What has become of a command on a device, as people count it."""

BY_WEIGHT: tuple[Outcome, ...] = tuple(
    sorted(OUTCOMES, key=lambda each: (each in {"refused", "excluded"}, each in {"waiting", "asleep", "elsewhere"}))
)
"""Of what a device says of one once-id in several operations, the first of these counts: it runs a command once, and
refuses it elsewhere."""

_OPEN: tuple[Outcome, ...] = ("asleep", "waiting", "elsewhere")
_AWAY = {"silent", "gone", "stopped"}
_LATE_US = 120_000_000
"""When a device was last seen is written once a minute: an order that is so young says nothing about it."""


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """What has become of a command on one device, as it reports it; times are microseconds since 1970.

    `unsigned`: of a board, which has not signed it; its gateway says it.

    `done`: its program has ended with 0; `failed`: with something else, or it was ended (`code`, `why`). `refused`:
    nothing was done; `unknown`: the device cannot know. Where nothing has come: `waiting`, `asleep` where the device is
    not there, since `away_since_us`, or `elsewhere` where this device is not told; `excluded`: it had not
    said that it obeys commands when this one was given, and never does it. `synchronised` says that its clock could be
    believed. An output that has gone made room for later ones.
    """

    device: str
    name: str
    label: str
    outcome: Outcome
    exit: int | None = None
    code: str = ""
    why: str = ""
    output_bytes: int = 0
    output_kept: bool = False
    cut: bool = False
    taken_at_us: int | None = None
    started_at_us: int | None = None
    ended_at_us: int | None = None
    synchronised: bool = False
    received_at_us: int | None = None
    seen_at_us: int | None = None
    away_since_us: int | None = None
    unsigned: bool = False


def rank(outcome: DeviceOutcome) -> int:
    """Return how much an outcome weighs among those of one device: the lowest counts."""
    return BY_WEIGHT.index(outcome.outcome)


@dataclass(frozen=True, slots=True)
class CommandReport:
    """A command: what was ordered, and what has become of it on each device that it is for, or that reported it.

    `hearers` are the keys of the members whom results go to.
    """

    order: OrderEntry
    action: str
    selector: str
    deadline_us: int | None
    devices: tuple[DeviceOutcome, ...]
    hearers: tuple[str, ...]

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How many devices there are of each outcome."""
        return Counter(each.outcome for each in self.devices)

    @property
    def finished(self) -> bool:
        """Whether every device has reported that can."""
        return not any(self.outcomes[each] for each in _OPEN)

    @property
    def failed(self) -> bool:
        """Whether a device refused it, failed, or cannot know what it did."""
        return any(self.outcomes[each] for each in ("failed", "refused", "unknown"))

    @property
    def undone(self) -> int:
        """How many devices it is for have not done it; one that obeys no commands and gave it itself is no target."""
        exempt = any(each.outcome == "excluded" and each.device == self.order.author for each in self.devices)
        return len(self.devices) - self.outcomes["done"] - exempt


def command_report(device: Device, manifest: GroupManifest, name: str) -> CommandReport | OrderEntry:
    """Return what has become of a command, by the beginning of its id; of another order what it is.

    Raises:
        LocalError: no operator has ordered that, or it is not clear which is meant.
    """
    operation = pick_operation(device, manifest.group_id, name, "covey order")
    entry, order = judged(device, manifest, operation), read_body(operation)
    if not isinstance(order, CommandOrder):
        return entry
    addressed = addressees(device.store.groups, manifest, operation)
    results = _counting(addressed, _kept(device, manifest, operation.id))
    recipients = _hearers(device, manifest, operation.author)
    devices = _Outcomes(device, manifest, operation, recipients).of(_present(manifest, order, addressed), results)
    keys = tuple(each.hex() for each in recipients)
    return CommandReport(entry, order.action, str(order.selector), order.deadline_us, tuple(devices), keys)


def reported(device: Device, manifest: GroupManifest, order: str) -> int:
    """Return how many devices have reported of an order, by its whole id: cheap, to see whether there is news."""
    return len(_kept(device, manifest, OperationId(bytes.fromhex(order))))


class ArrivedResult(NamedTuple):
    """A result that has come from a device, at a time of this device's clock."""

    device: DeviceKey
    label: str
    outcome: Outcome
    code: str
    why: str
    exit: int | None
    at_us: int

    @property
    def is_good(self) -> bool:
        """Whether the device has done what was ordered."""
        return self.outcome == "done"


def arrived_results(device: Device, manifest: GroupManifest, operation: Operation) -> list[ArrivedResult]:
    """Return the results of an order that count, in the order in which they came."""
    addressed = addressees(device.store.groups, manifest, operation)
    found = []
    for each in _counting(addressed, _kept(device, manifest, operation.id)):
        member = manifest.member(each.device)
        label = "" if member is None else member.label
        said = each.result.code, each.result.why, each.result.exit
        found.append(ArrivedResult(each.device, label, _outcome(each), *said, each.received_at_us))
    return found


def targets(device: Device, manifest: GroupManifest, operation: Operation) -> int:
    """Return how many devices a command is for."""
    order = read_body(operation)
    assert isinstance(order, CommandOrder), "only commands have results"
    return len(_present(manifest, order, addressees(device.store.groups, manifest, operation)))


def output_of(device: Device, manifest: GroupManifest, report: CommandReport, name: str) -> tuple[DeviceOutcome, bytes]:
    """Return what a device's program wrote, by the device's label or the beginning of its key.

    Raises:
        LocalError: it has reported nothing, or it is not clear which device is meant.
    """
    meant = devices_meant({DeviceKey(bytes.fromhex(each.device)): each.label for each in report.devices}, name)
    found = [each for each in report.devices if bytes.fromhex(each.device) in meant]
    if len(found) != 1:
        what = f"{len(found)} devices match" if found else "no device of this order matches"
        raise LocalError(f"{what} '{name[:70]}'", hint=f"'covey order show {report.order.id[:8]}' lists them")
    [shown] = found
    if shown.outcome == "elsewhere":
        raise LocalError(
            f"{shown.name} does not report its result to this device",
            hint=f"'covey order show {report.order.id[:8]}' shows the devices it reports to",
        )
    if shown.received_at_us is None:
        raise LocalError(f"{shown.name} has not reported anything yet")
    kept = _kept(device, manifest, OperationId(bytes.fromhex(report.order.id)))
    identifier = next(each.id for each in kept if each.device.hex() == shown.device)
    if not identifier:
        raise LocalError(
            "this device deletes the output of its programs once it is reported",
            hint=f"'covey order show {report.order.id[:8]}' shows it on the device that gave the order",
        )
    output = device.store.order_results.output(identifier)
    if output is None and shown.output_bytes:
        raise LocalError(f"the output of {shown.name} was deleted to make room for later ones; the result is kept")
    return shown, output or b""


def outcomes_by_device(
    device: Device, manifest: GroupManifest, only: Collection[str]
) -> dict[str, dict[DeviceKey, Outcome]]:
    """Return for each of these commands that anything was reported of, by its id, its outcome on each device."""
    found: dict[str, dict[DeviceKey, Outcome]] = {}
    words = obeyers(device.store.operations.nodes(manifest.group_id))
    every = device.store.order_results.all(manifest.group_id)
    for order_id, results in groupby(every, lambda each: each.result.order):
        raw = device.store.operations.raw(manifest.group_id, order_id) if order_id.hex() in only else None
        if raw is None:
            continue
        operation = read_operation(raw, verify=False)
        order = read_body(operation)
        if isinstance(order, CommandOrder):
            addressed = addressees(device.store.groups, manifest, operation)
            outcomes = {each.device: _outcome(each) for each in _counting(addressed, results)}
            obeying = words.of(order_id) | _boards(manifest)
            unreported = _unreported(device, _hearers(device, manifest, operation.author))
            for each in _present(manifest, order, addressed):
                if each not in outcomes:
                    outcomes[each] = unreported if each in obeying else "excluded"
            found[order_id.hex()] = outcomes
    return found


def _present(manifest: GroupManifest, order: CommandOrder, addressed: Collection[DeviceKey]) -> list[DeviceKey]:
    """Return whom a command is for by the manifest that holds as well: nobody else takes it."""
    present = [each.keys.signing_public for each in selected(manifest, order.selector)]
    return [each for each in present if each in addressed]


def _boards(manifest: GroupManifest) -> frozenset[DeviceKey]:
    """Return the boards: each says by itself what it makes of an order."""
    return frozenset(member.keys.signing_public for member in manifest.members if member.is_board)


def _kept(device: Device, manifest: GroupManifest, order: OperationId) -> list[KeptResult]:
    """Return the results that have come, and this device's own, which may go to others alone: without its output."""
    results, own = device.store.order_results.of_order(manifest.group_id, order), device.node.identity.signing_public
    record = device.store.commands.record(order)
    if record is None or record.result is None or any(each.device == own for each in results):
        return results
    result = replace(without_output(record.result), cut=False)
    kept = KeptResult(0, own, result.ended_us, judged=True, output_bytes=0, output_kept=False, result=result)
    return [*results, kept]


def _counting(addressed: Collection[DeviceKey], results: Iterable[KeptResult]) -> Iterator[KeptResult]:
    """Yield the results that count (docs/protocol/history.md, "Commands", rules 2 and 3)."""
    return (each for each in results if each.judged or each.device in addressed)


def _hearers(device: Device, manifest: GroupManifest, author: DeviceKey) -> list[DeviceKey]:
    """Return the recipients of a command's results."""
    return hearers(manifest, author, operator_keys(device, manifest))


def _unreported(device: Device, recipients: Collection[DeviceKey]) -> Outcome:
    """Return what is said of a device that obeys and whose result is not here, by whom results go to."""
    return "waiting" if device.node.identity.signing_public in recipients else "elsewhere"


def _outcome(kept: KeptResult) -> Outcome:
    match kept.result.state:
        case CommandState.DONE:
            return "failed" if kept.result.exit else "done"
        case CommandState.REFUSED:
            return "refused"
        case CommandState.UNKNOWN:
            return "unknown"
        case _:
            return "failed"


class _Outcomes:
    """What is known of the devices that a command is for."""

    def __init__(
        self, device: Device, manifest: GroupManifest, operation: Operation, recipients: Collection[DeviceKey]
    ) -> None:
        self._manifest = manifest
        self._own = device.node.identity.signing_public
        self._now_us = device.clock.wall_us()
        self._given_us = device.store.operations.stored_at_us(manifest.group_id, operation.id)
        self._obeying = obeyers(device.store.operations.nodes(manifest.group_id)).of(operation.id) | _boards(manifest)
        self._unreported = _unreported(device, recipients)
        self._taken = device.store.commands.knows(operation.id)
        self._seen, self._peers = device.store.presence.last_seen(), device.store.presence.of_peers()

    def of(self, addressed: Iterable[DeviceKey], results: Iterable[KeptResult]) -> list[DeviceOutcome]:
        """Return those that have reported, in that order, then the others."""
        found = {each.device: self._reported(each) for each in results}
        for key in addressed:
            found.setdefault(key, self._silent(key))
        return list(found.values())

    def _reported(self, kept: KeptResult) -> DeviceOutcome:
        result = kept.result
        return DeviceOutcome(
            *(kept.device.hex(), device_name(kept.device), self._label(kept.device), _outcome(kept)),
            exit=result.exit,
            code=result.code,
            why=result.why,
            output_bytes=kept.output_bytes,
            output_kept=kept.output_kept,
            cut=result.cut,
            taken_at_us=result.taken_us,
            started_at_us=result.started_us,
            ended_at_us=result.ended_us,
            synchronised=result.synchronised,
            received_at_us=kept.received_at_us,
            seen_at_us=self._seen.get(kept.device),
            away_since_us=self._gone_since_us(kept.device),
            unsigned=result.board is not None and result.signature is None,
        )

    def _silent(self, key: DeviceKey) -> DeviceOutcome:
        away_since_us: int | None = None
        outcome = self._unreported if key in self._obeying else "excluded"
        if key == self._own and self._taken:
            outcome = "waiting"
        if outcome == "waiting" and key != self._own:
            away_since_us = self._away_since_us(key)
            outcome = outcome if away_since_us is None else "asleep"
        return DeviceOutcome(
            *(key.hex(), device_name(key), self._label(key), outcome),
            seen_at_us=self._seen.get(key),
            away_since_us=away_since_us,
        )

    def _away_since_us(self, key: DeviceKey) -> int | None:
        """Return since when a device is not there, as far as that shows: by its presence, or by its silence since."""
        gone_since_us = self._gone_since_us(key)
        if gone_since_us is not None:
            return gone_since_us
        seen_us = self._seen.get(key)
        how, _ = condition(self._peers.get(key), seen_us, self._now_us)
        if how == "asleep":
            return seen_us
        old = self._now_us - self._given_us > _LATE_US
        unheard = seen_us is not None and seen_us < self._given_us - _LATE_US
        return seen_us if how == "unknown" and old and unheard else None

    def _gone_since_us(self, key: DeviceKey) -> int | None:
        how, since_us = condition(self._peers.get(key), self._seen.get(key), self._now_us)
        return since_us if how in _AWAY and key != self._own else None

    def _label(self, key: DeviceKey) -> str:
        member = self._manifest.member(key)
        return "" if member is None else member.label
