"""`covey relay`: the relays that this device uses, and a relay on this machine."""

from __future__ import annotations

import argparse
import sys

from covey.app.agent.machine_service import MachineService
from covey.app.documents import to_json
from covey.app.relays import relay_settings
from covey.app.relays.relay_settings import NamedAccess
from covey.cli.device_options import ask_to_restart, state_folder
from covey.cli.grammar import Parser, every_action, json_option
from covey.cli.output.relay_warning import warn_of_exposure
from covey.cli.output.terminal import print_json, print_table, read_text_file


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", _list, "list the relays that this device uses", also=["ls"])
    set_ = actions.add("set", _set, "set the first relay, or its credentials", examples=_SET_EXAMPLES)
    set_.add_argument("url", nargs="?", metavar="URL", help=f"{_URL} (default: the present one)")
    add = actions.add("add", _add, "use another relay at the same time, or change its credentials")
    remove = actions.add("remove", _remove, "stop using another relay, and delete its credentials", also=["rm"])
    for action in (add, remove):
        action.add_argument("url", metavar="URL", help=_URL)
    for action in (set_, add):
        action.add_argument("--password-file", metavar="FILE", help="file with this device's password; - is stdin")
        action.add_argument("--ca-file", metavar="FILE", help="PEM file of the CA that signed the relay's certificate")
        action.add_argument(
            "--certificate", metavar="FILE", help="PEM file of this device's certificate; - is stdin, with its key"
        )
        action.add_argument("--key", metavar="FILE", help="PEM file of the certificate's key (default: the same file)")
    every_action(parser, json_option)
    serve = actions.add(
        "serve",
        _serve,
        "run a relay here: mosquitto with certificate, accounts and rules",
        examples=("covey relay serve --label barn", "covey relay serve --host relay.example.org"),
    )
    serve.add_argument("--label", default="", help="name for people, if this machine is not a device yet")
    serve.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address that devices connect to (default: own address)",
    )
    serve.add_argument("--port", type=int, metavar="PORT", help="port to listen on (default: 8883)")


_URL = "mqtts://HOST[:PORT], or mqtt:// without TLS"
_SET_EXAMPLES = ("covey relay set mqtts://relay.example.org --password-file -", "covey relay set --certificate -")


def _list(options: argparse.Namespace) -> None:
    relays = relay_settings.used_relays(state_folder(options))
    if options.json:
        print_json([to_json(each) for each in relays])
    elif relays:
        rows = [(each.url, each.password, each.client_certificate or "-", each.ca_file or "-") for each in relays]
        print_table(["relay", "password", "certificate", "ca"], rows)
        print(f"username  {relays[0].username}")
    else:
        print("no relay is set")


def _set(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    relay_settings.change_first(folder, options.url, _named(options))
    warn_of_exposure([options.url] if options.url else [])
    _list(options)


def _add(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    relay_settings.add_relay(folder, options.url, _named(options))
    warn_of_exposure([options.url])
    _list(options)
    ask_to_restart(folder)


def _remove(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    relay_settings.remove_relay(folder, options.url)
    _list(options)
    ask_to_restart(folder)


def _serve(options: argparse.Namespace) -> int:
    """Create the missing files, print the address, and serve."""
    from covey.app.relays.relay_server import serve_relay
    from covey.app.relays.serving_relay import found_address, prepare_relay

    folder = state_folder(options)
    service = MachineService(folder, "covey-relay.service")

    def prepare() -> int:
        made = prepare_relay(folder, options.label, options.host, options.port)
        print(f"relay {made.url}", flush=True)
        if address := found_address(folder, made.url):
            print(
                f"devices connect to {address}: reserve this address for this machine in the router",
                file=sys.stderr,
                flush=True,
            )
        if not service.managed:
            serve_relay(folder)
        return 0

    return service.after(prepare)


def _named(options: argparse.Namespace) -> NamedAccess:
    return NamedAccess(options.ca_file, options.password_file, options.certificate, options.key, read_text_file)
