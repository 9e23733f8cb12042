"""`covey status`: is it well, what is waiting, for whom, since when, and who was heard."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from covey.app.device import Device
from covey.cli.device_options import answering_agent, open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import count, print_json, print_table
from covey.core.ids import device_name, printable
from covey.core.membership.requests import unanswered
from covey.core.presence.status import condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covey.config.settings import Config
    from covey.ports import AttachedBoard


DEVICES_HEAD = ("device", "label", "presence", "heard", "waiting", "since", "acknowledged")
_SHOWN = 20
_DAY_S = 86_400
_NEARLY_FULL = 0.8


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show one screen."""
    status = read_status(options)
    if options.json:
        print_json(status)
    else:
        _show(status)
    return 0


def read_status(options: argparse.Namespace) -> dict[str, Any]:
    """Return the screen as JSON values: the agent's where one answers, else the state's.

    Raises:
        CoveyError: there is no device here, or nobody lets us look.
    """
    agent = answering_agent(options)
    if agent is not None:
        return agent.status()
    with open_device(options) as device:
        return status_of(device)


def status_of(device: Device) -> dict[str, Any]:
    """Return the screen as JSON values."""
    store = device.store
    now_us = device.clock.wall_us()

    def age(since_us: int | None) -> int | None:
        return None if since_us is None else max(0, now_us - since_us) // 1_000_000

    conditions = store.conditions.values()
    relay, since_us = conditions.get("relay", ("never connected", now_us))
    running = device.folder.agent_runs()
    groups = device.node.membership.groups()
    labels = _labels(device)
    queues = store.outbox.queues()
    messages, size = store.outbox.totals()
    status = {
        "device": device_name(device.node.identity.signing_public),
        "label": device.config.label,
        "agent": "running" if running else "not running",
        "relay": {
            "url": device.config.relay.url,
            "state": relay if running else "agent not running",
            "seconds": age(since_us),
        },
        "relays": [
            {"url": url, "state": state if running else "agent not running", "seconds": age(changed_us)}
            for url, (state, changed_us) in relay_conditions(device.config, conditions, now_us)
        ],
        "clock_synchronised": device.clock.synchronised(),
        "outbox": {
            "messages": messages,
            "bytes": size,
            "maximum_bytes": device.config.outbox.maximum_bytes,
            "bytes_by_class": {kind.name.lower(): each for kind, each in store.outbox.bytes_by_class().items()},
            "oldest_seconds": age(min((each.oldest_at_us for each in queues if each.oldest_at_us), default=None)),
        },
        "queues": [
            {
                "recipient": device_name(queue.recipient),
                "label": labels.get(queue.recipient, ""),
                "queued": queue.queued,
                "acknowledged": queue.acknowledged,
                "oldest_seconds": age(queue.oldest_at_us),
            }
            for queue in queues
        ],
        "members": [
            {
                "device": device_name(key),
                "label": label,
                "heard_seconds": age(heard_us),
                "presence": presence,
                "presence_seconds": age(present_us),
            }
            for key, label, heard_us, presence, present_us in _members(device, now_us)
        ],
        "groups": [
            {"group_id": group.group_id.hex(), "version": group.version, "members": len(group.members)}
            for group in groups
        ],
        "boards": [{**_board(board), "seconds": age(board.changed_at_us)} for board in store.boards.all()],
        "salvage": _last_salvage(device, now_us),
        "pending_joins": len(store.joins.pending()),
        "waiting_invitations": len(unanswered(device.node.membership, store.requests, now_us)),
        "landing_bytes": store.landing.size(),
        "counters": store.counters.values(),
    }
    return {**status, "troubles": list(_troubles(status))}


def _last_salvage(device: Device, now_us: int) -> dict[str, Any] | None:
    salvages = device.store.device.salvages()
    if not salvages:
        return None
    at_us, about = salvages[-1]
    return {"seconds": max(0, now_us - at_us) // 1_000_000, "lost": about["lost"], "file": about["aside"]}


def _board(board: AttachedBoard) -> dict[str, Any]:
    return {
        "port": board.port,
        "device": device_name(board.keys.signing_public),
        "software": board.software,
        "enrolled": board.enrolled,
        "up": board.up,
    }


def _members(device: Device, now_us: int) -> Iterator[tuple[bytes, str, int | None, str, int | None]]:
    """Yield (signing key, label, heard at, presence, since when) of every other member."""
    heard, told = device.store.presence.last_seen(), device.store.presence.of_peers()
    for key, label in _labels(device).items():
        if key != device.node.identity.signing_public:
            yield key, label, heard.get(key), *condition(told.get(key), heard.get(key), now_us)


def _labels(device: Device) -> dict[bytes, str]:
    groups = device.node.membership.groups()
    return {member.keys.signing_public: member.label for group in groups for member in group.members}


def relay_conditions(
    config: Config, conditions: Mapping[str, tuple[str, int]], now_us: int
) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each configured relay's URL, and its state with its beginning; the preferred one first."""
    from covey.adapters.keys.relay_credential import place

    for url in (config.relay.url, *config.relay.also):
        if url:
            yield url, conditions.get(f"relay {place(url)}", ("never connected", now_us))


def _troubles(status: dict[str, Any]) -> Iterator[str]:
    """Yield what is not well, one short line each; `covey check` says how to mend it."""
    outbox = status["outbox"]
    if status["agent"] != "running":
        yield "the agent is not running"
    elif status["relay"]["state"] != "up":
        yield "the relay is not connected"
    else:
        away = [each["url"] for each in status["relays"] if each["state"] != "up"]
        if away:
            yield f"{len(away)} of {len(status['relays'])} relays not connected"
    if outbox["bytes"] > _NEARLY_FULL * outbox["maximum_bytes"]:
        yield "the outbox is nearly full"
    if (outbox["oldest_seconds"] or 0) > _DAY_S:
        yield f"a message has waited for {duration(outbox['oldest_seconds'])}"
    for board in status["boards"]:
        if not board["up"]:
            yield f"the board on {board['port']} is silent"


def _show(status: dict[str, Any]) -> None:
    for line in overview(status):
        print(line)
    rows = list(devices(status))
    if rows:
        print_table(DEVICES_HEAD, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        print(f"and {len(rows) - _SHOWN} more: --json shows all")
    if status["boards"]:
        print_table(["board", "device", "state", "software"], list(boards(status)))
    if status["counters"]:
        print_table(["counter", "value"], list(status["counters"].items()))


def overview(status: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about the device itself."""
    relay, outbox = status["relay"], status["outbox"]
    yield f"device   {status['device']} {printable(status['label'])}".rstrip()
    yield f"health   {'well' if not status['troubles'] else printable('; '.join(status['troubles']))}"
    yield f"agent    {status['agent']}"
    for each in status["relays"] or [relay]:
        yield f"relay    {each['url'] or 'not set'}: {printable(each['state'])}, for {duration(each['seconds'])}"
    yield f"clock    {'synchronised' if status['clock_synchronised'] else 'not synchronised'}"
    for group in status["groups"]:
        yield f"group    {group['group_id'][:8]} version {group['version']}, {count(group['members'], 'member')}"
    if salvage := status["salvage"]:
        counts = {name: "unknown" if count is None else count for name, count in salvage["lost"].items() if count != 0}
        lost = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
        yield f"damage   {duration(salvage['seconds'])} ago; what could be read was saved, lost: {lost}"
    if status["pending_joins"]:
        yield f"joining  {count(status['pending_joins'], 'request')} without an answer yet"
    if status["waiting_invitations"]:
        yield f"invited  {count(status['waiting_invitations'], 'invitation')} to answer: covey requests"
    line = f"outbox   {count(outbox['messages'], 'message')}, {outbox['bytes']} of {outbox['maximum_bytes']} bytes"
    if outbox["messages"]:
        classes = ", ".join(f"{name} {size}" for name, size in outbox["bytes_by_class"].items() if size)
        line += f" ({classes}), the oldest for {duration(outbox['oldest_seconds'] or 0)}"
    yield line


def devices(status: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each other device: who waits for something first, then who was heard last."""
    queues = {each["recipient"]: each for each in status["queues"]}
    members = {each["device"]: each for each in status["members"]}
    gone = [each for each in status["queues"] if each["recipient"] not in members and each["queued"]]
    found = []
    for name, label, heard, presence in [
        *((each["device"], each["label"], each["heard_seconds"], _presence(each)) for each in members.values()),
        *((each["recipient"], each["label"], None, "-") for each in gone),
    ]:
        queue = queues.get(name, {"queued": 0, "acknowledged": 0, "oldest_seconds": None})
        since = queue["oldest_seconds"]
        order = (-(since or 0), heard is None, heard or 0, name)
        row = (
            name,
            printable(label) or "-",
            presence,
            "itself" if name == status["device"] else "never" if heard is None else f"{duration(heard)} ago",
            queue["queued"],
            "-" if since is None else duration(since),
            queue["acknowledged"],
        )
        found.append((order, row))
    yield from (row for _, row in sorted(found))


def _presence(member: dict[str, Any]) -> str:
    if member["presence"] == "unknown":
        return "-"
    return f"{member['presence']} for {duration(member['presence_seconds'])}"


def boards(status: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each board on this machine's ports."""
    for board in status["boards"]:
        state = f"{'up' if board['up'] else 'silent'} for {duration(board['seconds'])}"
        if not board["enrolled"]:
            state += ", not enrolled"
        yield printable(board["port"]), board["device"], state, printable(board["software"]) or "-"


def duration(seconds: int) -> str:
    """Return a time as people say it: in one unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
