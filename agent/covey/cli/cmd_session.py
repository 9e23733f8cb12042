"""`covey session`: where people meet to work on the fleet, and when they did."""

from __future__ import annotations

import argparse

from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.history import sessions as history_sessions
from covey.app.wording import duration
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, group_option, json_option
from covey.cli.quantities import date_text
from covey.cli.terminal import print_json, print_table
from covey.core.ids import labelled_name, printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list the sessions of a group, the oldest first", also=["ls"])
    start = actions.add("start", on_device(_start), "say where people meet from now on")
    start.add_argument("uri", metavar="URI", help="a call, a chat, a place, such as tel:+43-1-2345")
    end = actions.add("end", on_device(_end), "say that a session is over")
    end.add_argument("id", nargs="?", metavar="ID", help="the beginning of its id (default: this device's last one)")
    every_action(parser, group_option, json_option)


def _list(device: Device, options: argparse.Namespace) -> None:
    found = history_sessions.sessions(device, device.pick_group(options.group))
    if options.json:
        print_json([to_json(each) for each in found])
        return
    if not found:
        print("no session was ever begun")
        return
    rows = [
        (
            each.id[:8],
            date_text(each.started_at_us),
            _duration(each.started_at_us, each.ended_at_us),
            labelled_name(each.author[:8], each.label),
            printable(each.uri),
        )
        for each in found
    ]
    print_table(["session", "began", "took", "by", "where"], rows)


def _duration(started_at_us: int, ended_at_us: int | None) -> str:
    return "goes on" if ended_at_us is None else duration((ended_at_us - started_at_us) // 1_000_000)


def _start(device: Device, options: argparse.Namespace) -> None:
    begun = history_sessions.start_session(device, device.pick_group(options.group), options.uri)
    if options.json:
        print_json({"id": begun.id.hex()})
    else:
        print(f"session {begun.id.hex()[:8]} goes on; 'covey session end' ends it")


def _end(device: Device, options: argparse.Namespace) -> None:
    ended = history_sessions.end_session(device, device.pick_group(options.group), options.id)
    if options.json:
        print_json(to_json(ended))
    else:
        print(f"session {ended.id[:8]} is over; it took {_duration(ended.started_at_us, ended.ended_at_us)}")
