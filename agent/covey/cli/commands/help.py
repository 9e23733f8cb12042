"""`covey help`: explain a command, an action or the words of the output, or list all commands."""

from __future__ import annotations

import argparse

from covey.cli.grammar import Parser
from covey.cli.main import all_commands, first_screen, full_parser
from covey.errors import UsageError

WORDS = {
    "action": "a named program or task that an owner lets operators start with an order",
    "admin": "a member that may change the group: invite, remove, ban",
    "agent": "the process that connects a device to its relays (covey run, collect)",
    "alert": "a message to people about a problem of the fleet",
    "board": "a microcontroller, connected through a gateway",
    "broker": "an MQTT server such as mosquitto; the software of a relay",
    "checkpoint": "a signed summary of a group's history; what it covers may be deleted",
    "collector": "a device that stores readings in a vault",
    "device": "a machine or board with its own keys",
    "door": "a connection that forwards stored readings to another system",
    "envelope": "an encrypted message as relays and mailboxes see it",
    "file": "content that a member offers to a group, and others fetch",
    "fleet": "all devices of this device's groups",
    "gateway": "a device that carries the messages of boards",
    "group": "devices that share keys, a history and files",
    "history": "the signed notes, settings and orders of a group",
    "hub": "the machine that runs the relay and collects, in the first examples",
    "invite": "a code, URI or file that lets one device join a group",
    "label": "a name for people; keys identify devices, labels do not",
    "lost": "deleted before its recipient stored it, and reported as such",
    "mailbox": "a member that stores encrypted messages for devices that sleep",
    "member": "a device in a group",
    "message": "data for one or more devices, kept until each acknowledges it",
    "node": "the part of a vault that one collector writes",
    "note": "a text or file posted in a group's history",
    "operator": "a device whose orders and settings other devices obey",
    "order": "a signed request of an operator: an action on some devices",
    "owner": "the person who configures a device",
    "preference": "a value shared by a person's own devices",
    "quarantine": "messages that could not be processed, kept for a decision",
    "reading": "one measured value with its name, unit and time",
    "relay": "an MQTT broker that carries encrypted messages between devices",
    "release": "a file that is installed on devices wave by wave",
    "segment": "a file of a vault with many readings",
    "series": "the readings of one device under one name",
    "setting": "a value of the configuration; operators can set it on many devices",
    "table": "readings and device data for SQL, made from a vault",
    "vault": "the encrypted store of readings: a folder or an object store",
    "verifier": "the words that two people compare when a device joins",
}
"""The glossary, for `covey help words` and the reference page of the commands."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "topic", nargs="?", metavar="COMMAND", help="command to explain; 'all' lists all; 'words': glossary"
    )
    parser.add_argument("action", nargs="?", metavar="NAME", help="action of this command, e.g. 'covey help group ban'")


def run(options: argparse.Namespace) -> int:
    if options.topic is None:
        text = first_screen()
    elif options.topic == "all" and options.action is None:
        text = all_commands()
    elif options.topic == "words" and options.action is None:
        text = _glossary()
    else:
        text = _explained(options.topic, options.action)
    print(text, end="")
    return 0


def _glossary() -> str:
    return "".join(f"{word:<12} {meaning}\n" for word, meaning in WORDS.items())


def _explained(topic: str, action: str | None) -> str:
    root = full_parser()
    found = dict(root.commands()).get(topic)
    if found is None:
        root.parse_args([topic])  # refuses it, and names what is near
        raise UsageError(f"covey has no command '{topic}'", hint="covey help all")
    if action is None:
        return found.format_help()
    if action not in found.actions:
        raise UsageError(f"covey {topic} has no action '{action}'", hint=f"covey help {topic}")
    return found.actions[action].format_help()
