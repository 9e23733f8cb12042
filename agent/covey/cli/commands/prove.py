"""`covey prove`: write a receipt of one stored reading."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.telemetry.receipts import prove, save_receipt
from covey.app.wording import size_text
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.receipt_view import print_proof
from covey.cli.output.terminal import print_json

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("device", metavar="DEVICE", help="device: label, or start of key")
    parser.add_argument("series", metavar="SERIES", help="series, e.g. air:temperature")
    parser.add_argument("time", metavar="TIME", help="when, as 'covey vault readings' prints it; UTC without a zone")
    parser.add_argument("file", metavar="FILE", help="file to write")
    parser.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Find the reading, write its receipt, and show what it proves.

    Raises:
        LocalError: there is no such reading, there are several, or it cannot be proven.
        StorageError: the vault cannot be read, or the file not be written.
    """
    with open_device(options) as device, ProgressLine() as line:
        receipt, proof = prove(
            device,
            options.vault,
            options.device,
            options.series,
            options.time,
            lambda done: line.show(f"read {size_text(done)}"),
        )
    target = Path(options.file).absolute()
    save_receipt(target, receipt)
    if options.json:
        print_json({"file": str(target)} | asdict(proof))
    else:
        print(f"wrote a receipt of {len(receipt)} bytes to {target}")
        print_proof(proof)
