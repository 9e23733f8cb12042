"""How a device is, looked up once: what status, metrics, top, check, the support bundle and the local API draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.keys.relay_credential import place
from covey.app.boards.documents import BoardStatus
from covey.app.boards.unnamed_boards import unnamed_boards
from covey.app.checks.documents import (
    AgreementStatus,
    BytesByClass,
    CatchUpStatus,
    GroupStatus,
    HistoryStatus,
    LinkStatus,
    MemberCost,
    MemberStatus,
    ObeyedOperator,
    OperatorsStatus,
    OtherHeads,
    OutboxStatus,
    QueueStatus,
    RelayStatus,
    SalvageStatus,
    Status,
    WrittenStatus,
)
from covey.app.content.status import content_status
from covey.app.device.carriage import announced_payloads, fits, too_large
from covey.app.device.known_labels import own_label
from covey.app.device.pins import somebody_is_pinned
from covey.app.device.relay_access import schedule_of
from covey.app.device.storage_writes import lately_written
from covey.app.documents import DAY_S
from covey.app.loop.link_costs import noted_costs
from covey.app.loop.link_windows import NEXT_WINDOW
from covey.app.loop.noise_keys import KEY_CONDITION
from covey.app.loop.takeovers import CopySign, seen_cuts
from covey.app.relays.documents import Outbox, WaitingMessage
from covey.app.telemetry.documents import SensorStatus
from covey.app.wording import count
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import MAILBOX
from covey.core.ids import DeviceKey, device_name, labelled_name, printable
from covey.core.link.budget import link_budget
from covey.core.link.costs import KINDS
from covey.core.link.queued import MessageClass
from covey.core.link.reported_cost import known_cost
from covey.core.membership.agreement import agreement, agreement_on_history
from covey.core.membership.requests import unanswered
from covey.core.now import Now
from covey.core.presence.status import asleep_until, condition
from covey.core.telemetry.names import SENSOR_CONDITION, SENSOR_DROPPED, SENSOR_READ
from covey.core.vault.landing import (
    DAMAGED_CONDITION,
    HELD_BACK_CONDITION,
    HELD_BACK_NAMED,
    RESTORED_CONDITION,
    VAULT_CONDITION,
)
from covey.errors import ConfigurationError
from covey.limits.storage import QUARANTINED_MESSAGES

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.app.relays.documents import MailboxStatus
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId
    from covey.core.membership.agreement import Agreement, SaidHeads
    from covey.core.presence.status import PeerPresence


_INTERFACES = Path("/sys/class/net")


def is_unplugged(interfaces: Path = _INTERFACES) -> bool:
    """Say whether the machine has interfaces of its own, by cable or radio, and none of them has a link.

    Bridges, tunnels and what containers have are no interfaces of its own, and say nothing.
    """
    try:
        own = [each for each in interfaces.iterdir() if (each / "device").exists()]
    except OSError:
        return False
    return bool(own) and not any(_has_link(each) for each in own)


def _has_link(interface: Path) -> bool:
    try:
        return (interface / "carrier").read_text().strip() == "1"
    except OSError:  # one that is switched off does not say
        return False


_NEVER = "never connected"
_NO_AGENT = "agent not running"
_NAMED = 3
_RESTORED_SHOWN_US = 30 * DAY_S * 1_000_000
"""A restored vault is mentioned for a month."""


class OwnCondition(NamedTuple):
    """How a device itself is, without what it knows of each other one: as of a `Status`."""

    running: bool
    relay: RelayStatus
    relays: tuple[RelayStatus, ...]
    outbox: OutboxStatus
    boards: tuple[BoardStatus, ...]
    sensors: tuple[SensorStatus, ...]
    operators: OperatorsStatus
    waiting_invitations: int
    grave: tuple[str, ...]
    """Troubles because of which this device cannot send, receive or store."""
    others: tuple[str, ...]
    unplugged: bool
    """Whether a relay is set, and no interface of this machine has a link."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """All troubles, the gravest first."""
        return self.grave + self.others

    @property
    def listens(self) -> bool:
        """Whether an agent runs here, and reaches a relay."""
        return self.running and any(each.up or each.rests for each in self.relays)


def own_condition(device: Device) -> OwnCondition:
    """Return how a device itself is."""
    store, now_us, running = device.store, device.clock.wall_us(), device.folder.locks.agent_runs()
    relay, *relays = _relays(device, now_us, running=running)
    outbox = _outbox(device, now_us)
    operators, misnamed = _operators(device)
    labels = _labels(device) if (known := store.boards.all()) else {}
    boards = tuple(
        BoardStatus(
            board.port,
            device_name(board.keys.signing_public),
            labels.get(board.keys.signing_public, ""),
            board.software,
            board.enrolled,
            board.up,
            _age(board.changed_at_us, now_us),
            printable(board.trouble),
        )
        for board in known
    )
    boards += tuple(
        BoardStatus(port, "", "", "", enrolled=False, up=False, seconds=seconds, trouble=trouble)
        for port, trouble, seconds in unnamed_boards(store.conditions, device.config.bridge.ports, now_us)
    )
    sensors = tuple(_sensors(device, now_us))
    unplugged = bool(relay.url) and is_unplugged()
    return OwnCondition(
        running,
        relay,
        tuple(relays),
        outbox,
        boards,
        sensors,
        operators,
        len(unanswered(device.node.groups, store.requests, now_us)),
        (
            *(["the disk that holds the state is read-only"] if device.folder.state_file.is_read_only() else []),
            *(["no network cable is plugged in, and no Wi-Fi connected"] if unplugged else []),
            *_grave(relay, outbox, running=running),
        ),
        (
            *_troubles(relay, relays, outbox, running=running),
            *_troubles_of_budget(link_status(device, now_us)),
            *troubles_of_vault(store, DeviceLabels(device.node.groups.joined()), now_us),
            *troubles_of_quarantine(store.quarantine.parties(), DeviceLabels(device.node.groups.joined())),
            *_troubles_of_groups(device),
            *_troubles_of_copies(device, now_us),
            *_troubles_of_parts(boards, sensors, running=running),
            *misnamed,
        ),
        unplugged,
    )


def status_of(device: Device) -> Status:
    """Return how a device is."""
    store, now_us, own = device.store, device.clock.wall_us(), own_condition(device)
    labels, last_said = _labels(device), store.heads.all()
    kept, mailbox = _mailboxes(device)
    return Status(
        device=device_name(device.node.identity.signing_public),
        label=own_label(device),
        agent="running" if own.running else "not running",
        relay=own.relay,
        relays=own.relays,
        clock_synchronised=device.clock.synchronised(),
        outbox=own.outbox,
        queues=tuple(
            QueueStatus(
                device_name(queue.recipient),
                labels.get(queue.recipient, ""),
                queue.queued,
                queue.acknowledged,
                _age(queue.oldest_at_us, now_us),
                kept.get(queue.recipient, ()) if queue.queued else (),
            )
            for queue in store.outbox.queues()
        ),
        members=tuple(_members(device, labels, now_us)),
        groups=tuple(_group(device, group, last_said, now_us) for group in device.node.groups.joined()),
        boards=own.boards,
        sensors=own.sensors,
        operators=own.operators,
        salvage=_last_salvage(device, now_us),
        pending_joins=len({each.group_id for each in store.joins.pending()}),
        waiting_invitations=own.waiting_invitations,
        noise_key_seconds=_noise_key_age(device, now_us),
        landing_bytes=store.landing.size(),
        counters=store.counters.values(),
        troubles=own.troubles,
        mailbox=mailbox,
        content=content_status(device, running=own.running),
        link=link_status(device, now_us),
        written=_written(device),
        alarms=tuple(name for name, _ in device.series.in_alarm()),
    )


def link_status(device: Device, now_us: int) -> LinkStatus:
    """Return when a device connects to its relays, and what that costs."""
    link, schedule = device.config.link, schedule_of(device.config.link)
    costs, budget = noted_costs(device.store, Now(device.clock.monotonic_us(), now_us)), link_budget(link.budget)
    noted, _ = device.store.conditions.values().get(NEXT_WINDOW, ("", 0))
    planned = (
        link.connect if schedule is None or link.connect != "always" else f"every {schedule.every_us // 60_000_000}m"
    )
    return LinkStatus(
        planned,
        max(0, int(noted) - now_us) // 1_000_000 if noted and schedule is not None else None,
        _in_order(costs.today),
        _in_order(costs.month),
        costs.forecast(now_us),
        link.budget,
        None if budget is None else budget.left(costs),
    )


def _troubles_of_budget(link: LinkStatus) -> Iterator[str]:
    if link.left_bytes == 0:
        yield f"the budget of {link.budget} is used up: messages wait for the next {link.budget.partition('/')[2]}"


def _in_order(counted: Mapping[str, int]) -> dict[str, int]:
    return {kind: counted[kind] for kind in KINDS if counted[kind]}


def _written(device: Device) -> WrittenStatus | None:
    found = lately_written(device.store)
    return None if found is None else WrittenStatus(found.bytes, found.seconds, found.per_day, found.database_bytes)


def _mailboxes(device: Device) -> tuple[dict[DeviceKey, tuple[str, ...]], MailboxStatus | None]:
    groups, own = device.node.groups.joined(), device.node.identity.signing_public
    if not any(group.with_capability(MAILBOX) for group in groups):  # most have none, and load nothing for it
        return {}, None
    from covey.app.relays.mailbox import mailbox_status

    kept: dict[DeviceKey, tuple[str, ...]] = {}
    for each in device.store.mailbox.pushed():
        if device.store.mailbox.holds_some(each.recipient, each.upto):
            kept[each.recipient] = (*kept.get(each.recipient, ()), device_name(each.mailbox))
    serves = any(MAILBOX in member.capabilities for group in groups if (member := group.member(own)) is not None)
    return kept, mailbox_status(device) if serves else None


def _group(device: Device, group: GroupManifest, last_said: dict[DeviceKey, SaidHeads], now_us: int) -> GroupStatus:
    said_to = {each.keys.signing_public: device.node.heads.said_to(each.keys.signing_public) for each in group.members}
    found = _agreement(device, group, said_to, last_said)
    others, never = _others(group, found.others, now_us), tuple(device_name(key) for key in found.never)
    return GroupStatus(
        group.group_id.hex(),
        group.version,
        len(group.members),
        AgreementStatus(len(found.same), others, never),
        _history(device, group, said_to, last_said, now_us),
        group.epoch,
        int(group.mode),
        _too_large(device, group),
    )


def _agreement(
    device: Device, group: GroupManifest, said_to: dict[DeviceKey, GroupId], last_said: dict[DeviceKey, SaidHeads]
) -> Agreement:
    trust, own = device.node.groups.trust(group.group_id), device.node.identity.signing_public
    return agreement(trust, own, said_to, last_said, device.store.groups.changed_at(group.group_id))


def _too_large(device: Device, group: GroupManifest) -> str:
    payloads = announced_payloads(device.config.relay, device.store)
    if not payloads or fits(device.store, group, max(payloads.values())):
        return ""
    last_said = device.store.heads.all()
    said_to = {each.keys.signing_public: device.node.heads.said_to(each.keys.signing_public) for each in group.members}
    found = _agreement(device, group, said_to, last_said)
    return too_large(payloads, device.store, group, found, last_said)


def _operators(device: Device) -> tuple[OperatorsStatus, tuple[str, ...]]:
    threshold, obeyed = device.config.operations.threshold, dict[str, ObeyedOperator]()
    if not somebody_is_pinned(device):  # most devices obey nobody, and load nothing for it
        return OperatorsStatus(threshold, ()), ()
    from covey.app.orders.operators import operators

    try:
        for group in device.node.groups.joined():
            for each in operators(device, group):
                if each.member or each.key not in obeyed:
                    obeyed[each.key] = ObeyedOperator(each.name, each.label, each.member)
    except ConfigurationError as error:
        return OperatorsStatus(threshold, ()), (str(error),)
    return OperatorsStatus(threshold, tuple(obeyed.values())), ()


def _history(
    device: Device,
    group: GroupManifest,
    said_to: dict[DeviceKey, GroupId],
    last_said: dict[DeviceKey, SaidHeads],
    now_us: int,
) -> HistoryStatus:
    node, store = device.node, device.store
    own, digest = node.identity.signing_public, node.history.digest(group.group_id)
    found = agreement_on_history(group, own, digest, said_to, last_said)
    return HistoryStatus(
        store.operations.count(group.group_id),
        len(found.same),
        _others(group, found.others, now_us),
        tuple(device_name(key) for key in found.never),
        tuple(
            CatchUpStatus(
                member.name,
                member.label,
                each.taken,
                each.waiting,
                each.more,
                _age(each.seen_at_us, now_us) or 0,
            )
            for each in store.catching_up.of(group.group_id)
            if (member := group.member(each.member)) is not None and each.member not in found.same
        ),
        store.operations.forgotten.count(group.group_id),
    )


def _others(group: GroupManifest, since_us: Mapping[DeviceKey, int], now_us: int) -> tuple[OtherHeads, ...]:
    labels = DeviceLabels((group,))
    return tuple(
        OtherHeads(device_name(key), labels.label(key), _age(each_us, now_us) or 0) for key, each_us in since_us.items()
    )


def _age(since_us: int | None, now_us: int) -> int | None:
    return None if since_us is None else max(0, now_us - since_us) // 1_000_000


def _noise_key_age(device: Device, now_us: int) -> int | None:
    public, since_us = device.store.conditions.values().get(KEY_CONDITION, ("", 0))
    return _age(since_us, now_us) if public == device.node.identity.noise_public.hex() else None


def _relays(device: Device, now_us: int, *, running: bool) -> Iterator[RelayStatus]:
    conditions, relay = device.store.conditions.values(), device.config.relay
    named = [(relay.url, "relay"), *((url, f"relay {place(url)}") for url in (relay.url, *relay.also) if url)]
    for url, name in named:
        noted, since_us = conditions.get(name, ("", now_us))
        yield RelayStatus(url, (noted or _NEVER) if running else _NO_AGENT, _age(since_us, now_us) or 0, noted)


def _outbox(device: Device, now_us: int) -> OutboxStatus:
    messages, size = device.store.outbox.totals()
    sizes = {kind.name.lower(): each for kind, each in device.store.outbox.bytes_by_class().items()}
    queues = device.store.outbox.queues(waiting=True)
    oldest_us = min((each.oldest_at_us for each in queues if each.oldest_at_us), default=None)
    return OutboxStatus(
        messages,
        size,
        device.config.outbox.maximum_bytes,
        BytesByClass(**sizes),
        _age(oldest_us, now_us),
        None if oldest_us is None else max(0, now_us - oldest_us),
    )


def _sensors(device: Device, now_us: int) -> Iterator[SensorStatus]:
    conditions, counters = device.store.conditions.values(), device.store.counters.values()
    for condition_name, (state, since_us) in sorted(conditions.items()):
        if condition_name.startswith(SENSOR_CONDITION) and state:
            name = condition_name.removeprefix(SENSOR_CONDITION)
            _, read_us = conditions.get(f"{SENSOR_READ}{name}", ("", None))
            begins = f"{SENSOR_DROPPED}{name} "
            dropped = {each.removeprefix(begins): n for each, n in counters.items() if each.startswith(begins)}
            yield SensorStatus(name, state, _age(since_us, now_us) or 0, _age(read_us, now_us), dropped)


def _last_salvage(device: Device, now_us: int) -> SalvageStatus | None:
    salvages = device.store.device.salvages()
    if not salvages:
        return None
    at_us, about = salvages[-1]
    return SalvageStatus(_age(at_us, now_us) or 0, about["lost"], about["aside"])


def _members(device: Device, labels: dict[DeviceKey, str], now_us: int) -> Iterator[MemberStatus]:
    seen, presences = device.store.presence.last_seen(), device.store.presence.of_peers()
    for key, label in labels.items():
        if key != device.node.identity.signing_public:
            presence, since_us = condition(presences.get(key), seen.get(key), now_us)
            next_us = asleep_until(presences.get(key)) if presence == "asleep" else None
            yield MemberStatus(
                *(device_name(key), label, _age(seen.get(key), now_us), presence, _age(since_us, now_us)),
                None if next_us is None else max(0, next_us - now_us) // 1_000_000,
                _cost(presences.get(key), now_us),
            )


def _cost(peer: PeerPresence | None, now_us: int) -> MemberCost | None:
    found = None if peer is None else known_cost(peer.cost, peer.cost_us, now_us)
    if found is None:
        return None
    cost = MemberCost(_age(found.reported_us, now_us) or 0, found.today, found.month, found.forecast)
    if found.budget is None:
        return cost
    lasts = None if found.outlook is None else found.outlook.value
    return replace(
        cost,
        budget_bytes=found.budget.bytes,
        period="month" if found.budget.monthly else "day",
        outlook=lasts,
    )


def _labels(device: Device) -> dict[DeviceKey, str]:
    groups = device.node.groups.joined()
    return {member.keys.signing_public: member.label for group in groups for member in group.members}


def _grave(relay: RelayStatus, outbox: OutboxStatus, *, running: bool) -> Iterator[str]:
    """Yield what keeps the agent from its work, one short line each; `covey check` says how to fix it."""
    if not running:
        yield "the agent is not running"
    elif not (relay.up or relay.rests):
        yield "the relay is not connected"
    if outbox.nearly_full:
        yield "the outbox is nearly full"


def _troubles(relay: RelayStatus, relays: list[RelayStatus], outbox: OutboxStatus, *, running: bool) -> Iterator[str]:
    """Yield further problems of relays and outbox, one short line each."""
    away = sum(not (each.up or each.rests) for each in relays)
    if running and (relay.up or relay.rests) and away:
        yield f"{away} of {len(relays)} relays not connected"
    if outbox.waits_long:
        yield f"a message has waited for {(outbox.oldest_seconds or 0) // DAY_S} d"


def troubles_of_quarantine(parties: Sequence[tuple[DeviceKey, int]], labels: DeviceLabels) -> Iterator[str]:
    """Yield how many messages are in quarantine, of which devices, and whether more would push others out."""
    messages = sum(number for _, number in parties)
    if not messages:
        return
    full = "" if messages < QUARANTINED_MESSAGES else ", which is full: the oldest go"
    named = _named([key for key, _ in parties], labels)
    yield f"{count(messages, 'message')} in quarantine{full}: covey message quarantine ({named})"


def troubles_of_vault(store: SqliteStore, labels: DeviceLabels, now_us: int) -> Iterator[str]:
    """Yield what keeps a collector from landing, and whose share of its landing is used up."""
    conditions = store.conditions.values()
    why, since_us = conditions.get(VAULT_CONDITION, ("", now_us))
    if why and store.landing.size():
        minutes = (_age(since_us, now_us) or 0) // 60
        yield f"the vault takes no data for {minutes} min, and senders keep theirs: {printable(why)}"
    elif why:
        yield f"the vault: {printable(why)}"
    lacked, restored_us = conditions.get(RESTORED_CONDITION, ("", 0))
    if lacked and now_us - restored_us < _RESTORED_SHOWN_US:
        yield (
            f"the vault was restored from an older copy, which lacked {count(int(lacked), 'message')}; "
            "their senders send again what they still have, and report the rest as lost (recipient_lost)"
        )
    damaged, _ = conditions.get(DAMAGED_CONDITION, ("", 0))
    if damaged:
        yield (
            f"damaged segments of the vault: {damaged.replace(' ', ', ')[:200]}; senders repeat what they still have, "
            "and report the rest as lost (recipient_lost); a copy restores them: covey config set vault.mirrors"
        )
    listed, _ = conditions.get(HELD_BACK_CONDITION, ("", 0))
    if listed:
        keys = [DeviceKey(bytes.fromhex(each)) for each in listed.split()]
        more = " or more" if len(keys) == HELD_BACK_NAMED else ""
        yield f"{count(len(keys), 'device')}{more} sent more than its share, and waits: {_named(keys, labels)}"


def _named(keys: Sequence[DeviceKey], labels: DeviceLabels) -> str:
    named = [labelled_name(device_name(key), labels.label(key)) for key in keys[:_NAMED]]
    return ", ".join(named) + (", ..." if len(keys) > _NAMED else "")


def _troubles_of_groups(device: Device) -> Iterator[str]:
    for group in device.node.groups.joined():
        if too_large := _too_large(device, group):
            yield f"group {group.group_id.hex()[:8]} {too_large}"


def _troubles_of_copies(device: Device, now_us: int) -> Iterator[str]:
    seen = seen_cuts(device.store.conditions, now_us)
    if seen.sign is CopySign.CERTAIN:
        yield "another device signs in as this one"
    elif seen.sign is CopySign.POSSIBLE:
        yield f"the relay was lost {seen.times} times soon after it came up: a bad line, or a copy of this device"


def _troubles_of_parts(
    boards: tuple[BoardStatus, ...], sensors: tuple[SensorStatus, ...], *, running: bool
) -> Iterator[str]:
    for board in boards:
        if not board.up and board.device:
            yield f"the board on {board.port} is silent"
        if board.trouble:
            yield f"the board on {board.port} reports: {board.trouble}"
    failing = [each.name for each in sensors if running and each.failing]
    if failing:
        named = ", ".join(failing[:_NAMED]) + (", ..." if len(failing) > _NAMED else "")
        yield f"{count(len(failing), 'sensor')} not measuring: {named}"


def outbox_of(device: Device, limit: int) -> Outbox:
    """Return what waits: the oldest `limit` messages of each recipient, and how many there are."""
    now_us, labels = device.clock.wall_us(), DeviceLabels(device.node.groups.joined())
    messages, size = device.store.outbox.totals()
    shown = tuple(
        WaitingMessage(
            device_name(recipient),
            labels.label(recipient),
            place,
            MessageClass(kind).name.lower(),  # type: ignore[arg-type] # the names of the classes are these words
            length,
            _age(queued_at_us, now_us) or 0,
        )
        for recipient in device.store.outbox.recipients()
        for place, kind, length, queued_at_us in device.store.outbox.waiting(recipient, limit)
    )
    return Outbox(messages, size, shown)
