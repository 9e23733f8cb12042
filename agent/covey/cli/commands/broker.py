"""`covey broker`: manage a broker's accounts, and test whether it isolates devices."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from covey.app.agent.machine_service import done_as_owner
from covey.app.documents import to_json
from covey.app.relays import broker_access
from covey.app.relays.broker_access import NamedAuthority
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.output.terminal import print_fields, print_json, read_text_file
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    init = actions.add(
        "init",
        _by_owner(_init),
        "set up credentials: an account for joining devices, or a fleet CA",
        examples=("covey broker init --password-file /etc/mosquitto/passwords", "covey broker init --ca /srv/covey/ca"),
    )
    renew = actions.add("renew", _by_owner(_renew), "change the shared password for joining devices")
    enrol = actions.add("enrol", _by_owner(_enrol), "create a device's credential, and print it once")
    remove = actions.add("remove", _by_owner(_remove), "remove a device's credential")
    check = actions.add(
        "check", _by_owner(_check), "test a running broker: accounts, rules, delivery, limits", examples=_CHECK_EXAMPLES
    )
    for action in (enrol, remove):
        action.add_argument("device", metavar="HEX", help="broker username or signing key of the device")
    for action in (init, renew, enrol, remove):
        action.add_argument("--password-file", metavar="FILE", help="mosquitto's password file")
        action.add_argument(
            "--pid-file", metavar="FILE", help="mosquitto's pid file, to reload a changed password file"
        )
        action.add_argument("--ca", metavar="DIR", help="folder of a fleet CA, instead of a password file")
    for action in (init, check):
        action.add_argument(
            "--shared-password-file",
            metavar="FILE",
            help="file with the password for joining; - is stdin (default: random)",
        )
    enrol.add_argument("--output", metavar="FILE", help="write the credential to this file (mode 0600)")
    check.add_argument(
        "--identity",
        metavar="FILE",
        action="append",
        default=[],
        help="output of 'covey broker enrol --json' for a test device; give two",
    )
    check.add_argument("--url", help="broker: mqtts://HOST[:PORT], or mqtt:// (default: relay.url)")
    check.add_argument("--ca-file", metavar="FILE", help="PEM file of the CA that signed the broker's certificate")
    listens = "time to listen for broker status messages (default: 11)"
    seconds_option(check, "--listen", listens, 11.0)
    check.set_defaults(password_file=None, pid_file=None, ca=None)
    for action in parser.actions.values():
        json_option(action)


_CHECK_EXAMPLES = (
    "covey broker enrol $(openssl rand -hex 16) --json --output one",
    "covey broker enrol $(openssl rand -hex 16) --json --output two",
    "covey broker check --identity one --identity two",
)


def _by_owner(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Let the user of the device that serves the relay do what root asks: the accounts' secrets are wrapped."""

    @wraps(command)
    def run(options: argparse.Namespace) -> int:
        folder = state_folder(options)
        root_asks = os.geteuid() == 0 and _named(options).is_served(folder)
        code = done_as_owner(folder) if root_asks else None
        return command(options) if code is None else code

    return run


def _init(options: argparse.Namespace) -> int:
    prepared = broker_access.prepare_authority(state_folder(options), _named(options), _shared_password(options))
    if options.json:
        print_json(to_json(prepared))
    else:
        print_fields(to_json(prepared))
    return 0


def _renew(options: argparse.Namespace) -> int:
    """Draw a new password for joining devices, which have no credential of their own yet."""
    renewed = broker_access.renew_shared_password(state_folder(options), _named(options))
    if options.json:
        print_json(to_json(renewed))
    else:
        print_fields(to_json(renewed))
    return 0


def _enrol(options: argparse.Namespace) -> int:
    """Create a device's credential and write it to stdout alone, for a pipe, or to a file."""
    credential = broker_access.let_in(state_folder(options), _named(options), options.device)
    text = credential.to_json() if options.json else credential.text.rstrip()
    if options.output:
        broker_access.keep_in_file(text, Path(options.output))
        print(f"note: the {credential.kind} is in {options.output} and nowhere else", file=sys.stderr)
    else:
        print(text)
        print(f"note: this {credential.kind} is shown only once", file=sys.stderr)
    return 0


def _remove(options: argparse.Namespace) -> int:
    """Remove a device's credential, or the password that joining devices share."""
    done = broker_access.shut_out(state_folder(options), _named(options), options.device)
    if options.json:
        print_json(to_json(done))
    else:
        print(f"{done.user_name}: {'credential removed' if done.removed else 'had no credential'}")
    return 0


def _check(options: argparse.Namespace) -> int:
    """Print the result of each test; return 0 if the broker passed all."""
    found = []
    for each in broker_access.examine_broker(
        state_folder(options),
        options.identity,
        url=options.url,
        ca_file=options.ca_file,
        shared_password=_shared_password(options),
        listen_s=options.listen,
    ):
        found.append(each)
        if not options.json:
            print(f"{'ok' if each.kept else 'BROKEN':<8}{each.name:<31}{printable(each.seen)}", flush=True)
    sound = all(each.kept for each in found)
    if options.json:
        rows = [{"property": each.name, "kept": each.kept, "seen": each.seen} for each in found]
        print_json({"sound": sound, "findings": rows})
    return 0 if sound else 1


def _named(options: argparse.Namespace) -> NamedAuthority:
    return NamedAuthority(options.password_file, options.pid_file, options.ca)


def _shared_password(options: argparse.Namespace) -> str | None:
    named = options.shared_password_file
    return None if named is None else read_text_file(named).strip()
