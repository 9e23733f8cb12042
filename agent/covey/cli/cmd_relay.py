"""`covey relay [set]|show|list|add|remove`: the broker, and further ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json, print_table, read_text_file
from covey.errors import UsageError
from covey.limits.relay import MAXIMUM_RELAYS

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


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
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)


def _set(options: argparse.Namespace) -> None:
    """Change what is named, then show what holds. The password itself is never shown."""
    folder = state_folder(options)
    _change_first(folder, options)
    _show(options)


def _change_first(folder: StateFolder, options: argparse.Namespace) -> None:
    folder.identity()
    if options.url is not None:
        from covey.adapters.mqtt.settings import parse_url

        parse_url(options.url)
    changes = {"relay.url": options.url, "relay.ca_file": options.ca_file}
    named = {key: value for key, value in changes.items() if value is not None}
    if named:
        folder.change_config(named)
    if options.certificate is not None or options.key is not None:
        _take_certificate(folder, options.certificate, options.key)
    if options.password_file is not None:
        folder.write_relay_password(read_text_file(options.password_file).strip())


def _show(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    config = folder.config()
    relay = config.relay
    shown: dict[str, Any] = {
        "url": relay.url,
        "ca_file": relay.ca_file,
        "username": folder.identity().signing_public.hex(),
        "password": "set" if folder.relay_password(config) else "not set",
        "client_certificate": relay.client_certificate,
        "client_key": relay.client_key,
        "also": list(relay.also),
    }
    if options.json:
        print_json(shown)
        return
    for name, value in shown.items():
        text = ", ".join(value) if isinstance(value, list) else value
        if text or name != "also":
            print(f"{name.replace('_', ' '):<18} {text or '-'}")


def _list(options: argparse.Namespace) -> None:
    _show_all(state_folder(options), as_json=options.json)


def _show_changed(folder: StateFolder, *, as_json: bool) -> None:
    _show_all(folder, as_json=as_json)
    if folder.agent_runs():
        print("restart the agent: it reads its configuration when it starts", file=sys.stderr)


def _show_all(folder: StateFolder, *, as_json: bool) -> None:
    from covey.adapters.keys.relay_credential import accounts

    config = folder.config()
    found = [
        {
            "url": each.url,
            "ca_file": str(each.ca_file or ""),
            "password": "set" if each.password else "not set",
            "client_certificate": str(each.client.certificate_file) if each.client else "",
        }
        for each in (accounts(folder, config) if config.relay.url else [])
    ]
    if as_json:
        print_json(found)
    else:
        rows = [
            [each["url"], each["password"], each["client_certificate"] or "-", each["ca_file"] or "-"] for each in found
        ]
        print_table(["relay", "password", "certificate", "authority"], rows)


def _add(options: argparse.Namespace) -> None:
    """Use a further relay, or give one that is used already another credential.

    Raises:
        UsageError: it is the first one, or there are too many; or two credentials.
        ConfigurationError: the URL, the authority or the certificate is not usable.
    """
    from covey.adapters.keys.relay_credential import keep_further, place
    from covey.adapters.mqtt.settings import tls_context

    folder = state_folder(options)
    relay = folder.config().relay
    name = place(options.url)
    also = [url for url in relay.also if place(url) != name]
    if not relay.url:
        raise UsageError("there is no first relay yet", hint=f"covey relay --url {options.url}")
    if name == place(relay.url):
        raise UsageError(f"{name} is the first relay already", hint="covey relay --url changes it")
    if len(also) + 2 > MAXIMUM_RELAYS:
        raise UsageError(f"a device has at most {MAXIMUM_RELAYS} relays", hint="covey relay remove URL")
    if options.password_file is not None and options.certificate is not None:
        raise UsageError("a password or a certificate, not both")
    named = options.certificate or options.password_file
    credential = read_text_file(named).strip() if named is not None else ""
    if options.key is not None:
        credential += "\n" + read_text_file(options.key).strip()
    if options.ca_file is not None:
        tls_context(Path(options.ca_file))
    authorities = read_text_file(options.ca_file) if options.ca_file is not None else ""
    keep_further(folder, options.url, credential, authorities)
    folder.change_config({"relay.also": (*also, options.url)})
    _show_changed(folder, as_json=options.json)


def _remove(options: argparse.Namespace) -> None:
    """Use a relay no more, and forget what let this device into it.

    Raises:
        UsageError: it is not used, or it is the first one.
    """
    from covey.adapters.keys.relay_credential import forget_further, place

    folder = state_folder(options)
    relay = folder.config().relay
    name = place(options.url)
    if relay.url and name == place(relay.url):
        raise UsageError(f"{name} is the first relay", hint="covey relay --url sets another one in its place")
    also = tuple(each for each in relay.also if place(each) != name)
    if also == relay.also:
        raise UsageError(f"{name} is no relay of this device", hint="covey relay list")
    folder.change_config({"relay.also": also or None})
    forget_further(folder, options.url)
    _show_changed(folder, as_json=options.json)


def _take_certificate(folder: StateFolder, certificate: str | None, key: str | None) -> None:
    """Use a certificate from now on: files that stay where they are, or what stdin brings, kept in the state folder.

    Raises:
        UsageError: a key without its certificate, or one beside stdin.
        ConfigurationError: the files are no certificate with its key, or others may read the key.
    """
    if certificate is None or (certificate == "-" and key is not None):
        raise UsageError("--key belongs to a --certificate FILE", hint="covey relay --certificate FILE --key FILE")
    if certificate == "-":
        from covey.adapters.keys.relay_credential import is_certificate, keep_credential

        bundle = read_text_file("-")
        if not is_certificate(bundle):
            raise UsageError("stdin holds no PEM", hint="covey broker enrol NAME --ca DIR makes what is wanted")
        keep_credential(folder, bundle)
        return
    from covey.adapters.mqtt.settings import ClientCertificate, tls_context

    files = ClientCertificate(Path(certificate).absolute(), Path(key).absolute() if key else None)
    tls_context(None, files)
    folder.change_config(
        {"relay.client_certificate": str(files.certificate_file), "relay.client_key": str(files.key_file or "")}
    )
