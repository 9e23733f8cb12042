"""`covey hub`: save a hub's recovery file, or make another machine the hub with it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from covey.app.documents import to_json
from covey.app.wording import count
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.terminal import print_json
from covey.cli.quantities import date_text
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError
from covey.limits.key import MAXIMUM_RECOVERY_BYTES


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    save = actions.add(
        "save",
        _save,
        "write a recovery file: keys, groups, relay accounts, vault key",
        examples=("covey hub save /media/stick/hub.recovery", "ssh hub sudo covey hub save - > hub.recovery"),
    )
    save.add_argument("file", metavar="FILE", help="recovery file to write; - is stdout")
    adopt = actions.add(
        "adopt",
        _adopt,
        "make this machine the hub of a recovery file",
        examples=("covey hub adopt hub.recovery", "covey hub adopt hub.recovery --host barn.example.org"),
    )
    adopt.add_argument("file", metavar="FILE", help="recovery file; - is stdin")
    for action in (save, adopt):
        action.add_argument(
            "--password-file", metavar="FILE", help="file with the recovery file's passphrase (default: ask)"
        )
    adopt.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address of the relay (default: the old name, or own address)",
    )
    adopt.add_argument("--port", type=int, metavar="PORT", help="port to listen on (default: as before)")
    json_option(adopt)


def _save(options: argparse.Namespace) -> None:
    from covey.app.relays.recovery import save_recovery, write_recovery

    def write(sealed: bytes) -> None:
        if options.file == "-":
            sys.stdout.buffer.write(sealed)
            sys.stdout.buffer.flush()
        else:
            write_recovery(Path(options.file), sealed)

    save_recovery(state_folder(options), options.password_file, write)
    print(
        "saved; keep the file and its passphrase secret: any machine that has both can be this hub. "
        "Save again when relay accounts or settings have changed, and when 'covey check' says so",
        file=sys.stderr,
    )


def _adopt(options: argparse.Namespace) -> None:
    from covey.app.relays.recovery import adopt_hub

    raw = _content(options.file)
    adopted = adopt_hub(state_folder(options), raw, options.password_file, options.host, options.port)
    if options.json:
        print_json(to_json(adopted))
        return
    name = labelled_name(adopted.name, printable(adopted.label))
    print(f"this machine is now {name}, as saved {date_text(adopted.saved_at_us)}, in {count(adopted.groups, 'group')}")
    if adopted.relay:
        moved = "" if adopted.relay == adopted.relay_before else f", before {adopted.relay_before}"
        print(f"  relay  {adopted.relay}{moved}")
    print("never start the old hub again: two machines would be the same device", file=sys.stderr)
    start = "covey relay serve, and covey collect" if adopted.relay else "covey collect, or covey run"
    print(f"next: {start}; with the package: sudo systemctl enable --now covey-relay covey-collector", file=sys.stderr)


def _content(name: str) -> bytes:
    """Return what a recovery file holds.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAXIMUM_RECOVERY_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAXIMUM_RECOVERY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{printable(name)} cannot be read: {error.strerror}") from error
