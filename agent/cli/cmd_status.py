"""`covey status`: is it well, what is waiting, for whom, since when."""

from __future__ import annotations

import argparse

from agent.cli.session import Session, open_session, print_json, print_table
from agent.core.ids import device_name, printable
from agent.core.membership import Membership


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Show one screen."""
    with open_session(options) as session:
        status = status_of(session)
    if options.json:
        print_json(status)
    else:
        _show(status)
    return 0


def status_of(session: Session) -> dict[str, object]:
    """Return the screen as JSON values."""
    store = session.store
    now_us = session.clock.wall_us()
    messages, size = store.totals()
    relay, since_us = store.conditions().get("relay", ("never connected", now_us))
    running = session.folder.agent_runs()
    membership = session.node.membership
    return {
        "device": device_name(session.node.identity.signing_public),
        "label": session.config.label,
        "agent": "running" if running else "not running",
        "relay": {
            "url": session.config.relay.url,
            "state": relay if running else "agent not running",
            "seconds": max(0, (now_us - since_us) // 1_000_000),
        },
        "clock_synchronised": session.clock.synchronised(),
        "outbox": {"messages": messages, "bytes": size, "maximum_bytes": session.config.outbox.maximum_bytes},
        "queues": [
            {
                "recipient": device_name(queue.recipient),
                "label": _label(membership, queue.recipient),
                "queued": queue.queued,
                "acknowledged": queue.acknowledged,
                "oldest_seconds": None
                if queue.oldest_at_us is None
                else max(0, (now_us - queue.oldest_at_us) // 1_000_000),
            }
            for queue in store.queues()
        ],
        "groups": [
            {"group_id": group.group_id.hex(), "version": group.version, "members": len(group.members)}
            for group in membership.groups()
        ],
        "pending_joins": len(store.pending_joins()),
        "landing_bytes": store.landing_bytes(),
        "counters": store.counters(),
    }


def _label(membership: Membership, signing_public: bytes) -> str:
    for group in membership.groups():
        member = group.member(signing_public)
        if member is not None:
            return member.label
    return ""


def _show(status: dict) -> None:  # type: ignore[type-arg]
    relay, outbox = status["relay"], status["outbox"]
    print(f"device   {status['device']} {printable(status['label'])}".rstrip())
    print(f"agent    {status['agent']}")
    print(f"relay    {relay['url'] or 'not set'}: {relay['state']}, for {_duration(relay['seconds'])}")
    print(f"clock    {'synchronised' if status['clock_synchronised'] else 'not synchronised'}")
    for group in status["groups"]:
        print(f"group    {group['group_id'][:8]} version {group['version']}, {group['members']} members")
    if status["pending_joins"]:
        print(f"joining  {status['pending_joins']} requests without an answer yet")
    print(f"outbox   {outbox['messages']} messages, {outbox['bytes']} of {outbox['maximum_bytes']} bytes")
    if status["queues"]:
        rows = [
            (
                queue["recipient"],
                printable(queue["label"]) or "-",
                queue["queued"],
                "-" if queue["oldest_seconds"] is None else _duration(queue["oldest_seconds"]),
                queue["acknowledged"],
            )
            for queue in status["queues"]
        ]
        print_table(["for", "label", "waiting", "since", "acknowledged"], rows)
    if status["counters"]:
        print_table(["counter", "value"], list(status["counters"].items()))


def _duration(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
