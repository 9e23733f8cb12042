"""`covey relay [set]|show|list|add|remove|serve`: the broker, further ones, and one of one's own."""

from __future__ import annotations

import argparse
import sys

from covey.app.agent.machine_service import MachineService
from covey.app.documents import to_json
from covey.app.relays import relay_settings
from covey.app.relays.relay_settings import NamedAccess
from covey.cli.device_options import ask_to_restart, state_folder
from covey.cli.grammar import Parser, every_action, json_option
from covey.cli.relay_warning import warn_of_exposure
from covey.cli.terminal import print_fields, print_json, print_table, read_text_file


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="set")
    set_ = actions.add(
        "set",
        _set,
        "change the first relay, and show it; with no option, only show it",
        examples=("covey relay --url mqtts://relay.example.org --password-file -",),
    )
    set_.add_argument("--url", help="the broker: mqtt://HOST[:PORT], or mqtts:// for TLS")
    actions.add("show", _show, "show the first relay")
    actions.add("list", _list, "list all relays", also=["ls"])
    add = actions.add("add", _add, "use a further relay at the same time, or give it another credential")
    remove = actions.add("remove", _remove, "use a further relay no more, and forget its credential")
    for action in (add, remove):
        action.add_argument("url", metavar="URL", help="mqtt://HOST[:PORT], or mqtts:// for TLS")
    for action in (set_, add):
        action.add_argument("--password-file", metavar="FILE", help="file with this device's password; - is stdin")
        action.add_argument(
            "--ca-file", metavar="FILE", help="PEM file of the authority that signed the broker's certificate"
        )
        action.add_argument(
            "--certificate", metavar="FILE", help="PEM file of this device's certificate; - is stdin, with its key"
        )
        action.add_argument(
            "--key", metavar="FILE", help="PEM file of the certificate's key, unless it stands beside it"
        )
    every_action(parser, json_option)
    serve = actions.add(
        "serve",
        _serve,
        "be a relay for others: mosquitto with certificate, accounts and rules, until it is ended",
        examples=("covey relay serve --label barn", "covey relay serve --host relay.example.org"),
    )
    serve.add_argument("--label", default="", help="a name for people, where this machine is no device yet")
    serve.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="how devices reach it, the first as they are told; again for more (default: this machine's address)",
    )
    serve.add_argument("--port", type=int, metavar="PORT", help="where it listens (default: 8883)")


def _set(options: argparse.Namespace) -> None:
    """Change what is named, then show what holds."""
    relay_settings.change_first(state_folder(options), options.url, _named(options))
    warn_of_exposure([options.url] if options.url else [])
    _show(options)


def _show(options: argparse.Namespace) -> None:
    relay = relay_settings.first_relay(state_folder(options))
    if options.json:
        print_json(to_json(relay))
        return
    fields = to_json(relay)
    also = fields.pop("also")
    print_fields(fields | ({"also": ", ".join(also)} if also else {}), 18)


def _list(options: argparse.Namespace) -> None:
    relays = relay_settings.used_relays(state_folder(options))
    if options.json:
        print_json([to_json(each) for each in relays])
    elif relays:
        rows = [(each.url, each.password, each.client_certificate or "-", each.ca_file or "-") for each in relays]
        print_table(["relay", "password", "certificate", "authority"], rows)
    else:
        print("no relay is set")


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
    """Make what is missing, say where it is, and serve."""
    from covey.app.relays.relay_server import serve_relay
    from covey.app.relays.serving_relay import found_address, prepare_relay

    folder = state_folder(options)
    service = MachineService(folder, "covey-relay.service")

    def prepare() -> int:
        made = prepare_relay(folder, options.label, options.host, options.port)
        print(f"relay {made.url}", flush=True)
        if address := found_address(folder, made.url):
            print(f"devices are told {address}: have the router keep it for this machine", file=sys.stderr, flush=True)
        if not service.managed:
            serve_relay(folder)
        return 0

    return service.after(prepare)


def _named(options: argparse.Namespace) -> NamedAccess:
    return NamedAccess(options.ca_file, options.password_file, options.certificate, options.key, read_text_file)
