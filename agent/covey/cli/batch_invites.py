"""`covey invite --batch`, `--labels` and `--list`: a file for each device of a fleet that nobody stands beside."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from covey.app.device.device import Device
from covey.app.device.relay_access import has_authority
from covey.app.documents import to_json
from covey.app.pairing.preparing import prepare, prepared_invites
from covey.app.wording import count
from covey.cli.grammar import Parser
from covey.cli.quantities import date_text, read_us
from covey.cli.terminal import print_json, print_table, read_text_file
from covey.core.ids import printable
from covey.errors import UsageError
from covey.limits.pairing import ADMISSION_US, MAXIMUM_PREPARED_INVITES, PREPARED_INVITE_US

_DAY_US = 86_400_000_000
_SHORTEST_US = 60_000_000
_PREFIX = "gateway-"
_VALID = f"{PREPARED_INVITE_US // _DAY_US}d"


def batch_options(parser: Parser) -> None:
    """Add the options of a batch."""
    parser.add_argument(
        "--batch",
        type=int,
        metavar="COUNT",
        help="write this many invite files, one per device, for 'covey join FILE'",
    )
    parser.add_argument("--output", "-o", metavar="DIR", help="with --batch or --labels: folder for the files")
    parser.add_argument(
        "--label-prefix",
        metavar="TEXT",
        help=f"with --batch: labels are this text and a number (default: {_PREFIX})",
    )
    parser.add_argument(
        "--labels", metavar="FILE", help="file with one label per line: write an invite file for each; - is stdin"
    )
    parser.add_argument(
        "--valid",
        metavar="TIME",
        help=f"how long the files are valid, at most {ADMISSION_US // _DAY_US}d (default: {_VALID})",
    )
    parser.add_argument(
        "--command",
        dest="commands",
        action="append",
        default=[],
        metavar="ACTION",
        help="with --batch or --labels: allow operators to run this action",
    )
    parser.add_argument("--list", action="store_true", help="list invite files and the devices that joined with them")


@dataclass(frozen=True, slots=True)
class Batch:
    """What a person says of the files: how many, or the labels' file; the other options as they were given."""

    count: int | None
    labels: str | None
    label_prefix: str | None
    folder: str | None
    valid: str | None
    capabilities: tuple[str, ...]
    operators: Sequence[str] | None
    commands: tuple[str, ...]

    def all_labels(self) -> list[str]:
        """Return the devices' labels.

        Raises:
            UsageError: it is not clear which, or there are too many.
        """
        if self.labels is not None:
            if self.label_prefix is not None:
                raise UsageError("--label-prefix has no effect with --labels", hint="use it with --batch COUNT")
            if self.count is not None:
                raise UsageError("--labels and --batch exclude each other", hint="give one of them")
            lines = (line.strip() for line in read_text_file(self.labels).splitlines())
            return [line for line in lines if line]
        if self.count is None or not 1 <= self.count <= MAXIMUM_PREPARED_INVITES:
            raise UsageError(f"--batch takes 1 to {MAXIMUM_PREPARED_INVITES}")
        digits = len(str(self.count))
        return [f"{self.label_prefix or _PREFIX}{number:0{digits}}" for number in range(1, self.count + 1)]


def write_batch(device: Device, group: str | None, batch: Batch, *, as_json: bool) -> int:
    """Write the files, and say what to do with them."""
    if batch.folder is None:
        raise UsageError("no folder is given for the files", hint="covey invite --batch 40 -o DIR")
    labels = batch.all_labels()
    paths = prepare(
        device,
        group,
        labels,
        Path(batch.folder),
        read_us("--valid", batch.valid or _VALID, ADMISSION_US, _SHORTEST_US),
        capabilities=batch.capabilities,
        operators=batch.operators,
        commands=batch.commands,
    )
    if as_json:
        for label, path in zip(labels, paths, strict=True):
            print_json({"label": label, "file": str(path)})
        return 0
    print(
        f"{count(len(paths), 'file')} in {printable(batch.folder)}, each a secret and for one device; "
        f"good for {batch.valid or _VALID}",
        file=sys.stderr,
    )
    print("on each device: covey join FILE", file=sys.stderr)
    if not has_authority(device.config):
        print(
            "note: this device cannot make accounts at the relay (broker.password_file): each device needs one first",
            file=sys.stderr,
        )
    return 0


def show_prepared(device: Device, *, as_json: bool) -> int:
    """List the invites in files."""
    found = prepared_invites(device)
    if as_json:
        for each in found:
            print_json(to_json(each))
        return 0
    rows = [
        (printable(each.label), each.id, each.state, each.joined or "", date_text(each.expires_at_us)) for each in found
    ]
    print_table(("LABEL", "ID", "STATE", "DEVICE", "GOOD UNTIL"), rows)
    return 0
