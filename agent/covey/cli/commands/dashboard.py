"""`covey dashboard`: serve the fleet's page from this device's state and vault."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from covey.app.fleet.page import serve_page
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser
from covey.cli.output.live_screen import interval_option, read_interval
from covey.cli.quantities import read_us

_LONGEST_US = 3_650 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8765", help="address to listen on (default: 127.0.0.1:8765)"
    )
    parser.add_argument("--certificate", metavar="FILE", help="certificate for TLS (PEM)")
    parser.add_argument("--key", metavar="FILE", help="private key of the certificate, if in another file")
    parser.add_argument(
        "--password-file", metavar="FILE", help="file with the password for visitors (mode 0600); needs TLS"
    )
    parser.add_argument("--proxy", metavar="ADDRESS", help="admit only this proxy, which authenticates visitors")
    parser.add_argument("--since", metavar="TIME", default="1d", help="how far to look back in the vault (default: 1d)")
    parser.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--read-only", action="store_true", help="offer visitors no changes")
    interval_option(parser, 0.5)


def run(options: argparse.Namespace) -> int:
    interval_s = read_interval(options.interval)
    since_us = read_us("--since", options.since, _LONGEST_US)
    files = [None if each is None else Path(each).absolute() for each in (options.certificate, options.key)]
    password_file = None if options.password_file is None else Path(options.password_file).absolute()
    page = serve_page(
        state_folder(options),
        options.listen,
        (files[0], files[1]),
        password_file,
        options.vault,
        since_us,
        interval_s,
        lambda link: print(f"link for another browser: {link}", flush=True),
        acts=not options.read_only,
        proxy=options.proxy,
    )
    print(page.link, flush=True)
    if password_file is None and options.proxy is None:
        print("the link admits one browser; Ctrl-C stops the page", file=sys.stderr)
    try:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        page.close()
    return 0
