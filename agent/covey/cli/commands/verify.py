"""`covey verify`: verify a receipt with the device's key alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.telemetry.receipts import read_device_key, read_receipt, verify
from covey.cli.grammar import Parser, json_option
from covey.cli.output.receipt_view import print_proof
from covey.cli.output.terminal import print_json

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", metavar="FILE", help="receipt that 'covey prove' wrote")
    parser.add_argument("key", metavar="KEY", help="the device's signing key: covey-sign-..., or 64 hexadecimal digits")
    json_option(parser)


def run(options: argparse.Namespace) -> None:
    """Verify the receipt, and show what it proves.

    Raises:
        LocalError: the device with this key did not sign it.
    """
    key = read_device_key(options.key)
    proof = verify(read_receipt(Path(options.file)), key)
    if options.json:
        print_json(asdict(proof))
    else:
        print("valid: the device with this key signed this reading")
        print_proof(proof)
