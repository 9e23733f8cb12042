"""`covey hub`: save a hub's recovery file, or make another machine the hub with it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.wording import count
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.terminal import confirm, print_json
from covey.cli.quantities import date_text
from covey.core.ids import device_name, fingerprint, labelled_name, printable
from covey.errors import LocalError, UsageError
from covey.limits.key import MAXIMUM_RECOVERY_BYTES

if TYPE_CHECKING:
    from covey.adapters.keys.shared_recovery import AdoptionRequest, SharedRecovery


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
    save.add_argument(
        "--operators", type=int, metavar="K", help="no passphrase: K of the hub's operators open the file together"
    )
    approve = actions.add(
        "approve",
        _approve,
        "as an operator, give a new machine this device's part of a recovery file",
        examples=("covey hub approve hub.recovery covey-request-...",),
    )
    approve.add_argument("file", metavar="FILE", help="recovery file; - is stdin")
    approve.add_argument("request", metavar="REQUEST", help="as 'covey hub adopt' prints it on the new machine")
    approve.add_argument("--yes", action="store_true", help="do not ask")
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

    if options.operators is None:
        save_recovery(state_folder(options), options.password_file, write)
        needs = "its passphrase secret: any machine that has both can be this hub"
    else:
        from covey.app.orders.shared_recovery import save_shared_recovery

        if options.password_file is not None:
            raise UsageError("--operators and --password-file exclude each other")
        shared = save_shared_recovery(state_folder(options), options.operators, write)
        named = ", ".join(labelled_name(device_name(key), label) for key, label in shared.operators)
        needs = f"copies of it: any machine that {shared.needed} of {named} approve can be this hub"
    print(
        f"saved; keep the file and {needs}. "
        "Save again when relay accounts or settings have changed, and when 'covey check' says so",
        file=sys.stderr,
    )


def _adopt(options: argparse.Namespace) -> None:
    from covey.app.orders.shared_recovery import shared_recovery
    from covey.app.relays.recovery import adopt_hub, require_new, typed_passphrase

    folder, raw = state_folder(options), _content(options.file)
    require_new(folder)
    shared = shared_recovery(raw)
    if shared is None:
        adopted = adopt_hub(folder, raw, typed_passphrase(options.password_file), options.host, options.port)
    else:
        if options.file == "-":
            raise UsageError("operators' approvals come from stdin", hint="name the recovery file")
        adopted = adopt_hub(folder, shared.recovery, _approvals(shared).passphrase, options.host, options.port)
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


def _approvals(shared: SharedRecovery) -> AdoptionRequest:
    """Ask operators for their approvals, which a person pastes, until there are enough.

    Raises:
        LocalError: stdin ended before.
    """
    from covey.app.orders.shared_recovery import ask_operators

    asked = ask_operators(shared)
    named = ", ".join(labelled_name(device_name(key), printable(label)) for key, label in shared.operators)
    print(f"{shared.needed} of these operators must approve: {named}", file=sys.stderr)
    print(f"on their devices, with this file: covey hub approve FILE {asked.text}", file=sys.stderr)
    print(f"they compare: {fingerprint(asked.public)}", file=sys.stderr)
    while not asked.is_complete:
        print("paste what it prints: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise LocalError(
                f"{len(asked.approved)} of {count(shared.needed, 'approval')}", hint="begin again: covey hub adopt FILE"
            )
        try:
            asked.take(line.strip())
        except LocalError as error:
            print(f"{error}: {error.hint}", file=sys.stderr)
        else:
            print(f"approved by {', '.join(map(printable, asked.approved))}", file=sys.stderr)
            if len(asked.approved) >= shared.needed and not asked.is_complete:
                print("these do not open the file: did each approve this one? another operator may", file=sys.stderr)
    return asked


def _approve(options: argparse.Namespace) -> None:
    from covey.app.orders.shared_recovery import approve_adoption, machine_that_asks, shared_recovery

    shared = shared_recovery(_content(options.file))
    if shared is None:
        raise UsageError("this recovery file has a passphrase, and no parts for operators")
    asker = machine_that_asks(options.request)
    hub = labelled_name(device_name(shared.hub), printable(shared.label))
    saved = date_text(shared.saved_at_us)
    confirm(f"the machine that shows {asker} wants to be hub {hub}, as saved {saved}. Approve?", options.yes)
    print(approve_adoption(state_folder(options), shared, options.request))


def _content(name: str) -> bytes:
    """Return what a recovery file holds.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        if name == "-":
            return sys.stdin.buffer.read(2 * MAXIMUM_RECOVERY_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(2 * MAXIMUM_RECOVERY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{printable(name)} cannot be read: {error.strerror}") from error
