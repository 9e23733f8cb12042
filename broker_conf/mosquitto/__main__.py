"""`python -m broker_conf.mosquitto add-device HEX --passwords FILE`: give a device its credential."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent.errors import CoveyError, UsageError
from broker_conf.mosquitto.passwords import add_device


def main(arguments: list[str] | None = None) -> int:
    """Run the command; print the new password, alone, to standard output."""
    parser = argparse.ArgumentParser(prog="python -m broker_conf.mosquitto")
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add-device", help="draw a password for a device and store its hash")
    adding.add_argument("noise_public_hex", metavar="HEX", help="the device's noise public key, which is its user name")
    adding.add_argument("--passwords", type=Path, required=True, metavar="FILE", help="mosquitto's password_file")
    options = parser.parse_args(arguments)
    try:
        password = _add(options.passwords, options.noise_public_hex)
    except CoveyError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return error.exit_code
    sys.stdout.write(password + "\n")
    sys.stderr.write("note: this is shown once; the broker reads the file again on SIGHUP\n")
    return 0


def _add(passwords: Path, noise_public_hex: str) -> str:
    try:
        return add_device(passwords, noise_public_hex)
    except OSError as error:
        raise UsageError(
            f"{passwords}: {error.strerror}", hint="run this as the user who owns the password file"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
