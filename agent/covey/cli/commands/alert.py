"""`covey alert`: send alerts about the fleet, and list them."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.fleet import alert_watch as alerts
from covey.app.fleet.silences import end_silence, silence
from covey.app.groups.groups import pick_device
from covey.cli.device_options import on_device, state_folder
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.output.live_screen import read_interval
from covey.cli.output.terminal import print_json, print_table
from covey.cli.quantities import date_text, read_us
from covey.core.ids import labelled_name, printable
from covey.errors import StorageError
from covey.limits.alerts import SILENCE_US_MAX

if TYPE_CHECKING:
    from covey.app.device.device import Device


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    listing = actions.add("list", _list, "list present alerts and undelivered notifications", also=["ls"])
    trial = actions.add("test", _test, "send a test message to each target")
    quiet = actions.add("silence", on_device(_silence), "send no alerts about a device for some time")
    quiet.add_argument("device", metavar="DEVICE", help="label, or start of key")
    quiet.add_argument("--for", dest="duration", default="4h", metavar="TIME", help="how long (default: 4h; 0: end it)")
    watch = actions.add("watch", _watch, "watch the fleet and send alerts (Ctrl-C to stop)")
    seconds_option(watch, "--interval", "time between checks (default: 30)", 30.0)
    json_option(listing)
    json_option(trial)


def _list(options: argparse.Namespace) -> int:
    found = alerts.list_alerts(state_folder(options))
    if options.json:
        print_json(to_json(found))
        return 0
    if not found.watched:
        print(
            "no process watches the fleet (start it: covey alert watch); these alerts are from its last check",
            file=sys.stderr,
        )
    if found.alerts:
        rows = [
            (
                each.kind,
                labelled_name(each.device[:8], each.label),
                printable(each.what),
                date_text(each.since_us),
                "yes" if each.announced else "not yet",
            )
            for each in found.alerts
        ]
        print_table(["alert", "device", "what", "since", "sent"], rows)
    else:
        print("no alerts")
    for target in found.targets:
        why = f", refused {target.attempts} times: {printable(target.error)}" if target.attempts else ""
        print(f"{target.name}: {target.waiting} waiting, {target.dropped} dropped{why}")
    return 0


def _test(options: argparse.Namespace) -> int:
    found = alerts.try_targets(state_folder(options))
    if options.json:
        print_json([to_json(each) for each in found])
    else:
        for each in found:
            print(f"{each.target}: {printable(each.error) or 'sent'}")
    return 1 if any(each.error for each in found) else 0


def _silence(device: Device, options: argparse.Namespace) -> None:
    member = pick_device(device.node.groups.joined(), options.device)
    name = labelled_name(member.name, member.label)
    if options.duration == "0":
        end_silence(device, member.keys.signing_public)
        print(f"alerts about {name} are sent again")
        return
    for_us = read_us("--for", options.duration, SILENCE_US_MAX)
    until_us = silence(device, member.keys.signing_public, for_us)
    print(f"no alerts about {name} until {date_text(until_us)}")


def _watch(options: argparse.Namespace) -> int:
    interval_s = read_interval(options.interval)
    watch = alerts.AlertWatch(state_folder(options), log=lambda line: print(line, flush=True))
    pause = threading.Event()
    try:
        while True:
            try:
                watch.look()
            except StorageError as error:
                print(f"check failed: {error}", file=sys.stderr, flush=True)
            pause.wait(interval_s)
    finally:
        watch.close()
