"""A device's status for people: lines about the device itself, and a row for each other device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from covey.app.documents import DAY_S, to_json
from covey.app.wording import count, dropped_text, size_text
from covey.core.ids import labelled_name, printable

if TYPE_CHECKING:
    from covey.app.checks.documents import HistoryStatus, LinkStatus, MemberStatus, Status, WrittenStatus
    from covey.app.content.documents import ContentStatus

DEVICES_HEAD = ("device", "label", "presence", "last seen", "waiting", "since", "acknowledged")
_NO_RELAY = "relay    not set: covey relay set mqtts://HOST"
_NAMED, _LABEL = 4, 24
"""Operators that the line of orders names, and characters of a label there."""
_BECAME, _TRIED = "commands_", "attempts_"
"""How counters begin: of what has become of commands, and of orders by those who have no say here."""
_LATELY_S = 30
_COSTLY = 4
"""Kinds of bytes that the line of costs names; `covey link` has them all."""
BOARDS_HEAD = ("board", "device", "state", "software")
SENSORS_HEAD = ("sensor", "since", "last reading", "state")


def _files(content: ContentStatus) -> str:
    """Return the line about the groups' files."""
    text = f"{count(content.here, 'file')} here"
    for number, what in ((content.wanted, "on the way"), (content.wrong, "wrong")):
        text += f", {number} {what}" if number else ""
    return text if content.peers is None else f"{text}; {count(content.peers, 'peer')} on this network"


def thinned_text(counters: Mapping[str, int]) -> str:
    """Say how many readings a full outbox has replaced by summaries; nothing where there are none."""
    readings = counters.get("thinned_readings", 0)
    batches = count(counters.get("thinned_messages", 0), "batch", "batches")
    return (
        f"{count(readings, 'reading')} of {batches} replaced by summaries, as the outbox was full" if readings else ""
    )


def _written(written: WrittenStatus) -> str:
    """Say how much the agent writes to storage."""
    share = f"{100 * written.database_bytes // written.bytes} % to the database" if written.bytes else ""
    if written.bytes_per_day is None:
        said = f"{size_text(written.bytes)} to storage in {duration(written.seconds)}"
        return f"{said} ({share})" if share else said
    period = f"last {count(round(written.seconds / DAY_S), 'day')} of running"
    return (
        f"{size_text(written.bytes_per_day)} a day to storage, {size_text(30 * written.bytes_per_day)} in 30 days "
        f"({'; '.join(filter(None, (share, period)))})"
    )


def overview(status: Status) -> Iterator[str]:
    """Yield the lines about the device itself."""
    outbox = status.outbox
    yield f"device   {labelled_name(status.device, status.label)}"
    yield f"health   {'well' if not status.troubles else printable('; '.join(status.troubles))}"
    yield f"agent    {status.agent}"
    yield from _links(status)
    yield f"clock    {'synchronised' if status.clock_synchronised else 'not synchronised'}"
    if (age := status.noise_key_seconds) is not None:
        yield f"key      the noise key is {duration(age)} old"
    for group in status.groups:
        yield f"group    {group.group_id[:8]} version {group.version}, {count(group.members, 'member')}"
        if group.members > 1 or group.history.operations:
            yield f"history  {history_line(group.history)}"
    yield f"orders   {_orders(status)}"
    if salvage := status.salvage:
        counts = {name: "unknown" if count is None else count for name, count in salvage.lost.items() if count != 0}
        lost = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
        yield f"damage   {duration(salvage.seconds)} ago; the readable data was saved, lost: {lost}"
    if status.pending_joins:
        yield f"joining  {count(status.pending_joins, 'request')} not answered yet"
    if status.waiting_invitations:
        yield f"invited  {count(status.waiting_invitations, 'invitation')} to answer: covey request"
    line = (
        f"outbox   {count(outbox.messages, 'message')}, {size_text(outbox.bytes)} of {size_text(outbox.maximum_bytes)}"
    )
    if outbox.messages:
        classes = ", ".join(f"{name} {size}" for name, size in to_json(outbox.bytes_by_class).items() if size)
        line += f" ({classes}), the oldest for {duration(outbox.oldest_seconds or 0)}"
    yield line
    if thinned := thinned_text(status.counters):
        yield f"thinned  {thinned}"
    if (written := status.written) is not None:
        yield f"written  {_written(written)}"
    labels = {each.device: each.label for each in status.members}
    for queue in status.queues:
        if queue.kept_by:
            keepers = " and ".join(labelled_name(each, labels.get(each, "")) for each in queue.kept_by)
            whom = labelled_name(queue.recipient, queue.label)
            yield f"kept     messages for {whom} are also stored at the mailbox {keepers}"
    yield from _kept(status)


def _links(status: Status) -> Iterator[str]:
    """Yield the lines about the relays, when this device connects to them, and series in alarm."""
    for each in status.relays or [status.relay]:
        yield f"relay    {each.url}: {printable(each.state)}, for {duration(each.seconds)}" if each.url else _NO_RELAY
    if status.link.connect != "always":
        yield f"link     {link_line(status.link)}"
    if status.link.month:
        yield f"cost     {cost_line(status.link)}"
    if status.alarms:
        yield f"alarm    {', '.join(printable(each, 64) for each in status.alarms)}"


def link_line(link: LinkStatus) -> str:
    """Say when this device connects to its relays."""
    if link.connect == "always":
        return "always connected"
    when = "a window is open" if link.next_seconds is None else f"next window in {duration(link.next_seconds)}"
    return f"connects {link.connect}: {when}"


def cost_line(link: LinkStatus) -> str:
    """Say what the link costs, and what takes most of it."""
    today, month = sum(link.today.values()), sum(link.month.values())
    most = sorted(link.month, key=link.month.__getitem__, reverse=True)[:_COSTLY]
    split = ", ".join(f"{kind} {link.month[kind] * 100 // month} %" for kind in most)
    text = f"{size_text(today)} today, {size_text(month)} this month ({split})"
    if link.left_bytes is not None:
        text += f"; {size_text(link.left_bytes)} left of {link.budget}"
    return text if link.forecast_bytes is None else f"{text}; forecast {size_text(link.forecast_bytes)}"


def _kept(status: Status) -> Iterator[str]:
    """Yield the lines about files and envelopes that are kept here."""
    if status.content is not None:
        yield f"files    {_files(status.content)}"
    if (mailbox := status.mailbox) is not None:
        size = f"{size_text(mailbox.bytes)} of {size_text(mailbox.maximum_bytes)}"
        yield f"mailbox  {count(mailbox.blobs, 'envelope')} for {count(len(mailbox.inboxes), 'device')}, {size}"


def _orders(status: Status) -> str:
    """Yield the lines about operators and the results of their orders."""
    obeyed, threshold = status.operators.obeyed, status.operators.threshold
    if not obeyed:
        return "obeys no operator" + what_came(status.counters)
    named = [
        labelled_name(each.device, each.label) + ("" if each.member else " (not a member)") for each in obeyed[:_NAMED]
    ]
    if len(obeyed) > _NAMED:
        named.append(f"{len(obeyed) - _NAMED} more")
    agree = f"; {threshold} must approve each order" if threshold > 1 else ""
    return f"obeys {', '.join(named)}{agree}{what_came(status.counters)}"


def what_came(counters: Mapping[str, int]) -> str:
    """Return the numbers of commands by result, and of refused orders."""
    became = [f"{number} {name.removeprefix(_BECAME)}" for name, number in counters.items() if name.startswith(_BECAME)]
    text = f"; commands: {', '.join(became)}" if became else ""
    tried = sum(number for name, number in counters.items() if name.startswith(_TRIED))
    return text + (f"; {count(tried, 'order')} refused: covey order refused" if tried else "")


def history_line(history: HistoryStatus) -> str:
    """Return how much of a history is here, and which members hold operations that are missing."""
    gone = f" ({history.deleted} of them deleted)" if history.deleted else ""
    parts = [count(history.operations, "operation") + gone]
    for each in history.fetching:
        whom = labelled_name(each.device, each.label)
        if each.more:
            ago = f", the last {duration(each.seconds)} ago" if each.seconds > _LATELY_S else ""
            known = each.taken + each.waiting + each.more
            parts.append(f"fetching from {whom}: {each.taken:,} of {known:,}{ago}")
        if each.waiting:
            parts.append(f"{each.waiting} from {whom} wait for earlier ones")
    seen = history.same + len(history.others)
    if history.others:
        first = history.others[0]
        whom = f"{labelled_name(first.device, first.label)} for {duration(first.seconds)}"
        parts.append(f"same as {history.same} of {seen} members seen; differs from {whom}")
    elif history.same:
        parts.append(f"same as {f'all {history.same} members' if history.same > 1 else 'the one member'} seen")
    if history.never:
        parts.append(f"{len(history.never)} not seen yet")
    return ", ".join(parts)


def devices(status: Status) -> Iterator[tuple[object, ...]]:
    """Yield a row for each other device: first those with waiting messages, then by when they were last heard."""
    queues = {each.recipient: each for each in status.queues}
    members = {each.device: each for each in status.members}
    gone = [each for each in status.queues if each.recipient not in members and each.queued]
    found = []
    for name, label, seen, presence in [
        *((each.device, each.label, each.last_seen_seconds, _presence(each)) for each in members.values()),
        *((each.recipient, each.label, None, "-") for each in gone),
    ]:
        queue = queues.get(name)
        since = queue.oldest_seconds if queue else None
        order = (-(since or 0), seen is None, seen or 0, name)
        row = (
            name,
            printable(label) or "-",
            presence,
            "this device" if name == status.device else "never" if seen is None else f"{duration(seen)} ago",
            queue.queued if queue else 0,
            "-" if since is None else duration(since),
            queue.acknowledged if queue else 0,
        )
        found.append((order, row))
    yield from (row for _, row in sorted(found))


def _presence(member: MemberStatus) -> str:
    if member.presence == "unknown":
        return "-"
    if member.next_seconds is not None:
        return f"{member.presence}, next in {duration(member.next_seconds)}"
    return f"{member.presence} for {duration(member.presence_seconds or 0)}"


def boards(status: Status) -> Iterator[tuple[object, ...]]:
    """Yield a row for each board on this machine's ports."""
    for board in status.boards:
        if not board.device:
            yield printable(board.port), "-", f"failing to start for {duration(board.seconds or 0)}", "-"
            continue
        state = f"{'up' if board.up else 'silent'} for {duration(board.seconds or 0)}"
        if not board.enrolled:
            state += ", not enrolled"
        yield printable(board.port), labelled_name(board.device, board.label), state, printable(board.software) or "-"


def sensors(status: Status) -> Iterator[tuple[object, ...]]:
    """Yield a row for each configured sensor, as the agent last knew it."""
    for each in status.sensors:
        read = "never" if each.last_reading_seconds is None else f"{duration(each.last_reading_seconds)} ago"
        yield printable(each.name), duration(each.seconds), read, printable(each.state) + dropped_text(each.dropped)


def duration(seconds: int) -> str:
    """Return a time in one unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
