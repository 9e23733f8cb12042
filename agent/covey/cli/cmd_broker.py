"""`covey broker`: have authority over a broker: let devices in, shut them out, and prove that it keeps its promises."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.broker.authority import Authority, PasswordAuthority, authority, fleet_ca
from covey.adapters.broker.mosquitto_passwords import ENROLMENT_ACCOUNT, check_device_name
from covey.adapters.keys.key_file import read_secret, write_secret
from covey.adapters.keys.relay_credential import is_certificate
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json, read_text_file
from covey.config.settings import RelayConfig
from covey.core.ids import key_from_text, printable
from covey.errors import ConfigurationError, MalformedError, UsageError

if TYPE_CHECKING:
    from covey.adapters.broker.examination import BrokerAccount

_MAXIMUM_IDENTITY_BYTES = 64 * 1024


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    init = actions.add(
        "init",
        _init,
        "make what credentials come from: a shared account for joiners, or a fleet CA",
        examples=("covey broker init --password-file /etc/mosquitto/passwords", "covey broker init --ca /srv/covey/ca"),
    )
    enrol = actions.add("enrol", _enrol, "make a device's credential, and print it once")
    remove = actions.add("remove", _remove, "shut a device out")
    check = actions.add("check", _check, "prove on a live broker that it keeps its promises", examples=_CHECK_EXAMPLES)
    for action in (enrol, remove):
        action.add_argument("device", metavar="DEVICE", help="a device's broker user name, or its signing key")
    for action in (init, enrol, remove):
        action.add_argument("--password-file", metavar="FILE", help="mosquitto's password file")
        action.add_argument(
            "--pid-file", metavar="FILE", help="mosquitto's pid file: it is told of a changed password file"
        )
        action.add_argument("--ca", metavar="DIR", help="folder of a fleet CA, instead of a password file")
    for action in (init, check):
        action.add_argument(
            "--shared-password-file",
            metavar="FILE",
            help=f"file with the password of the account {ENROLMENT_ACCOUNT} (default: its name); - is stdin",
        )
    enrol.add_argument("--output", metavar="FILE", help="write the credential to a file of mode 0600")
    check.add_argument(
        "--identity",
        metavar="FILE",
        action="append",
        default=[],
        help="what 'covey broker enrol --json --output FILE' wrote for an identity made for this; twice",
    )
    check.add_argument("--url", help="the broker: mqtt://HOST[:PORT], or mqtts:// for TLS (default: relay.url)")
    check.add_argument(
        "--ca-file", metavar="FILE", help="PEM file of the authority that signed the broker's certificate"
    )
    check.add_argument(
        "--listen",
        metavar="SECONDS",
        type=float,
        default=11.0,
        help="how long to listen for what a broker tells by itself (default: 11)",
    )
    for action in parser.actions.values():
        json_option(action)


_CHECK_EXAMPLES = (
    "covey broker enrol $(openssl rand -hex 32) --json --output one",
    "covey broker enrol $(openssl rand -hex 32) --json --output two",
    "covey broker check --identity one --identity two",
)


def _init(options: argparse.Namespace) -> None:
    """Make what credentials come from; what is there stays."""
    if options.ca:
        _one_authority(options)
        ca = fleet_ca().create(Path(options.ca))
        shown = {"ca_file": str(ca.folder / "ca.crt"), "crl_file": str(ca.folder / "revoked.crl")}
    else:
        held = _authority(options)
        if not isinstance(held, PasswordAuthority):
            raise UsageError("the configured authority is a fleet CA", hint="name it: covey broker init --ca DIR")
        held.share(_shared_password(options))
        shown = {"password_file": str(held.password_file), "account": ENROLMENT_ACCOUNT}
    if options.json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print(f"{name.replace('_', ' '):<13} {value}")


def _enrol(options: argparse.Namespace) -> None:
    """Make a device's credential: alone on stdout, so that it can be piped to where it is needed, or in a file."""
    user_name = _user_name(options.device)
    credential = _authority(options).mint(user_name)
    kind = "certificate" if is_certificate(credential) else "password"
    text = json.dumps({"user_name": user_name, kind: credential}) if options.json else credential.rstrip()
    if options.output:
        write_secret(Path(options.output), f"{text}\n".encode())
        print(f"note: {options.output} holds the {kind}; nothing else does", file=sys.stderr)
    else:
        print(text)
        print(f"note: this {kind} is shown once", file=sys.stderr)


def _remove(options: argparse.Namespace) -> None:
    """Shut a device out, or whoever has no credential yet."""
    held = _authority(options)
    if options.device == ENROLMENT_ACCOUNT and isinstance(held, PasswordAuthority):
        held.share(None)
        user_name, removed = ENROLMENT_ACCOUNT, True
    else:
        user_name = _user_name(options.device)
        removed = held.remove(user_name)
    if options.json:
        print_json({"user_name": user_name, "removed": removed})
    else:
        print(f"{user_name} {'removed' if removed else 'had no credential'}")


def _check(options: argparse.Namespace) -> int:
    """Try on a live broker what Covey needs of it; return 0 if it has all of that."""
    from covey.adapters.broker.examination import Examination

    if len(options.identity) != 2:
        raise UsageError(
            "two identities are needed, which no device uses",
            hint="covey broker enrol $(openssl rand -hex 32) --json --output FILE, twice; then --identity FILE, twice",
        )
    one, two = (_identity(Path(name)) for name in options.identity)
    if one.user_name == two.user_name:
        raise UsageError("both identities are the same", hint="enrol another")
    folder = state_folder(options)
    relay = folder.config().relay if folder.config_path.exists() else RelayConfig()
    ca_file = options.ca_file or (relay.ca_file if not options.url else "")
    examination = Examination(
        options.url or relay.url,
        Path(ca_file) if ca_file else None,
        (one, two),
        _shared_password(options),
        options.listen,
    )
    found = []
    for finding in examination.findings():
        found.append(finding)
        if not options.json:
            print(f"{'ok' if finding.kept else 'BROKEN':<8}{finding.name:<31}{printable(finding.seen)}", flush=True)
    sound = all(each.kept for each in found)
    if options.json:
        rows = [{"property": each.name, "kept": each.kept, "seen": each.seen} for each in found]
        print_json({"sound": sound, "findings": rows})
    return 0 if sound else 1


def _identity(path: Path) -> BrokerAccount:
    """Read what `enrol --json --output` wrote.

    Raises:
        ConfigurationError: it is missing, open to others, or something else.
    """
    from covey.adapters.broker.examination import BrokerAccount

    try:
        content = json.loads(read_secret(path, _MAXIMUM_IDENTITY_BYTES))
        check_device_name(content["user_name"])
        return BrokerAccount(content["user_name"], content.get("password", ""), content.get("certificate", ""))
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise ConfigurationError(
            f"{path} is no identity", hint="covey broker enrol NAME --json --output FILE writes one"
        ) from error


def _shared_password(options: argparse.Namespace) -> str:
    """Return the enrolment account's password: what a file says, else the account's name.

    Raises:
        UsageError: the file is empty, or cannot be read.
    """
    if options.shared_password_file is None:
        return ENROLMENT_ACCOUNT
    if shared := read_text_file(options.shared_password_file).strip():
        return shared
    raise UsageError("the shared password is empty")


def _user_name(text: str) -> str:
    """Return the user name that a person means: itself, or the signing key as `covey key show` prints it.

    Raises:
        UsageError: it is neither.
    """
    if text.startswith("covey-"):
        try:
            return key_from_text("sign", text).hex()
        except MalformedError as error:
            raise UsageError(f"{error}", hint="`covey key show` on the device prints its signing key") from error
    check_device_name(text)
    return text


def _authority(options: argparse.Namespace) -> Authority:
    """Return the authority that the options name, or else the configuration.

    Raises:
        UsageError: neither does.
        ConfigurationError: it is not usable.
    """
    _one_authority(options)
    if options.ca:
        return fleet_ca().open(Path(options.ca))
    if options.password_file:
        return PasswordAuthority(Path(options.password_file), Path(options.pid_file) if options.pid_file else None)
    folder = state_folder(options)
    configured = authority(folder.config().broker, folder.path) if folder.config_path.exists() else None
    if configured is None:
        raise UsageError(
            "no authority over a broker is named",
            hint="--password-file FILE or --ca DIR; or covey config set broker.password_file FILE",
        )
    return configured


def _one_authority(options: argparse.Namespace) -> None:
    if options.ca and options.password_file:
        raise UsageError("--password-file and --ca are two authorities", hint="name one")
