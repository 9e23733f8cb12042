"""`covey join CODE`, `URI` or `FILE`: ask the inviter to let this device in."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

from covey.app.agent.daemon import run_agent
from covey.app.agent.machine_service import MachineService
from covey.app.agent.roles import configured_roles
from covey.app.device.creating import device_to_join
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.groups.previews import PreviewedGroup, PreviewedMember
from covey.app.pairing.invite_file import SUFFIX, InviteFile, parse_invite_file, read_invite_file
from covey.app.pairing.joining import Terms, ask_to_join
from covey.app.wording import count
from covey.cli.device_options import open_device, state_folder
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.output.joining_view import print_operators, wait_for_group
from covey.cli.output.relay_warning import warn_of_exposure
from covey.cli.output.terminal import print_json, read_text_file
from covey.core.ids import labelled_name, printable
from covey.errors import PairingError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder

_PATIENCE_S = 600.0


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "code",
        metavar="CODE",
        help="code or URI of an invite, or an invite file; - reads stdin",
    )
    parser.add_argument("--relay", metavar="URL", help="with a code: relay to use: mqtts://HOST[:PORT]")
    parser.add_argument(
        "--ca-file", "--ca", metavar="FILE", help="PEM file of the CA that signed the relay's certificate"
    )
    parser.add_argument(
        "--enrolment-password-file", metavar="FILE", help="file with the relay's shared password, if it was changed"
    )
    seconds_option(
        parser,
        "--timeout",
        "time to wait; 0: not for the group (default: 600; a file: its validity)",
    )
    parser.add_argument("--label", default="", help="name for people, if this machine is not a device yet")
    parser.add_argument("--run", action="store_true", help="then run the agent, like 'covey run'")
    obedience = parser.add_mutually_exclusive_group()
    obedience.add_argument("--obey", action="store_true", help="obey the operators in the invite without asking")
    obedience.add_argument("--obey-nobody", action="store_true", help="do not obey the operators in the invite")
    json_option(parser, "print JSON, one document per line")


def run(options: argparse.Namespace) -> int:
    """Queue the request, durably, and wait for the group's manifest; then run the agent, if --run was given."""
    folder, given = state_folder(options), _given(options)  # first: a file may be root's alone
    if options.run:
        return _join(options, folder, given) or _be_agent(folder)
    return MachineService(folder, "covey.service").after(lambda: _join(options, folder, given))


def _given(options: argparse.Namespace) -> str | InviteFile:
    """Return the code, the URI, or the content of the file."""
    if options.code != "-":
        path = Path(options.code)
        return read_invite_file(path) if path.suffix == SUFFIX or path.is_file() else options.code.strip()
    text = read_text_file("-")
    return parse_invite_file(text.encode(), "stdin") if "\n" in text.strip() else text.strip()


def _join(options: argparse.Namespace, folder: StateFolder, given: str | InviteFile) -> int:
    label = given.label if isinstance(given, InviteFile) else ""
    with device_to_join(folder, options.label or label or gethostname()), open_device(options) as opened:
        return join(opened, options, given)


def _be_agent(folder: StateFolder) -> int:
    run_agent(folder, configured_roles)
    return 0


def join(opened: Device, options: argparse.Namespace, given: str | InviteFile, *, personal: bool = False) -> int:
    """Join a group, or the group of the person's own devices, by a code, a URI, or the content of a file."""
    secret = options.enrolment_password_file
    password = None if secret is None else read_text_file(secret).strip()  # before anybody is asked
    patience_s = _patience_s(opened, options, given)
    terms = Terms(options.relay, options.ca_file, password, personal)
    terms.check()
    deadline = time.monotonic() + patience_s
    warn_of_exposure([options.relay] if options.relay else [])
    try:
        if isinstance(given, InviteFile):
            from covey.app.pairing.joining_by_file import ask_by_file

            log = _Log(options, obeys=given.obeys)
            device, group_id = ask_by_file(opened, given, deadline - time.monotonic(), terms, log)
        else:
            meets_s = patience_s or _PATIENCE_S  # 0 means: do not wait for the group
            device, group_id = ask_to_join(opened, given, terms, _Terminal(options), meets_s)
    except PairingError as error:
        if options.json:
            print_json({"ended": error.code})
        raise
    seconds = max(0.0, deadline - time.monotonic()) if isinstance(given, InviteFile) else patience_s
    return wait_for_group(device, group_id, seconds, as_json=options.json)


def _patience_s(opened: Device, options: argparse.Namespace, given: str | InviteFile) -> float:
    """Return the default time to wait: ten minutes, or as long as the file is valid."""
    if options.timeout is not None:
        return float(options.timeout)
    if isinstance(given, InviteFile):
        return max(0.0, (given.invite.expires_at_us - opened.now().wall_us) / 1e6)
    return _PATIENCE_S


class _Terminal:
    """Shows the ceremony to a person; implements `joining.Witness`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._as_json = options.json
        self._met = False

    def looking(self) -> None:
        print("looking for the other device ...", file=sys.stderr)

    def nobody_yet(self) -> None:
        """Print what to check."""
        print("no answer yet; check the code and the relay", file=sys.stderr)

    def refused(self, reason: str) -> None:
        """Print the refusal, which anyone could have sent."""
        print(f"the other side reports: {reason}; if that is plausible, press Ctrl-C and try again", file=sys.stderr)

    def met(
        self,
        name: str,
        label: str,
        verifier: list[str],
        group: PreviewedGroup,
        operators: tuple[PreviewedMember, ...],
    ) -> None:
        """Print the inviter, the group, the words to compare, and the operators that this device will obey."""
        self._met = True
        if self._as_json:
            shown, named = to_json(group), [to_json(each) for each in operators]
            print_json({"inviter": name, "label": label, "verifier": verifier, "group": shown, "operators": named})
            sys.stdout.flush()
        print(f"the other device: {labelled_name(name, label)}", file=sys.stderr)
        title = printable(group.title) or group.group_id[:8]
        print(f"invites to:       {title}, {count(group.members, 'member')}", file=sys.stderr)
        for each in group.shown:
            print(f"  {each.name} {each.fingerprint} {printable(each.label)}".rstrip(), file=sys.stderr)
        self._compare(verifier, operators)

    def _compare(self, verifier: list[str], operators: tuple[PreviewedMember, ...]) -> None:
        print(f"verifier words:   {' '.join(verifier)}", file=sys.stderr)
        print_operators(operators)
        print("check that the other device shows the same words; waiting for it to accept ...", file=sys.stderr)

    def obeys(self, operators: tuple[PreviewedMember, ...]) -> bool:
        """Ask whether to obey the invite's operators, unless an option answers; without a terminal the answer is no."""
        options = self._options
        if not self._met:
            print_operators(operators)
        if options.obey or options.obey_nobody or not operators:
            agrees = bool(options.obey and operators)
        else:
            agrees = self._asks()
        if self._as_json and operators:
            print_json({"obeys": [to_json(each) for each in operators] if agrees else []})
            sys.stdout.flush()
        elif agrees:
            print(
                f"this device obeys {count(len(operators), 'operator')}; to list them: covey group operators",
                file=sys.stderr,
            )
        elif operators:
            print(
                "this device obeys none of them; to obey one: covey config set operations.operators KEY, "
                "which 'covey key show' prints on the operator",
                file=sys.stderr,
            )
        return agrees

    def _asks(self) -> bool:
        if not sys.stdin.isatty() or self._options.code == "-":
            return False
        print("may these operators give orders to this device? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def keeps_own(self) -> None:
        """Print that this device keeps its own operators whatever the invite names."""
        print("this device's configuration lists its operators; the invite adds none", file=sys.stderr)

    def relay_taken(self, url: str) -> None:
        print(f"using the invite's relay {printable(url)}", file=sys.stderr)
        warn_of_exposure([url])


class _Log(_Terminal):
    """Writes the ceremony's steps to a log: nobody compares words, and the file names the operators."""

    def __init__(self, options: argparse.Namespace, *, obeys: bool) -> None:
        super().__init__(options)
        self._obeys = obeys

    def _asks(self) -> bool:
        return self._obeys or super()._asks()

    def nobody_yet(self) -> None:
        print("no answer yet: the device that wrote the file may be off; trying again", file=sys.stderr)

    def _compare(self, verifier: list[str], operators: tuple[PreviewedMember, ...]) -> None:  # noqa: ARG002 - as above
        print_operators(operators)
