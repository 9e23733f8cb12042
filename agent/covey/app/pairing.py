"""What commands need for pairing: the words, what an inviter tells, and the joiner's ceremony."""

from __future__ import annotations

import ipaddress
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.keys.key_file import write_secret
from covey.app.roles.pairing_host import HostFacts
from covey.app.session import Session, print_json, read_text_file, report, stop_signals
from covey.core.crypto import DeviceKeys
from covey.core.ids import device_name, printable
from covey.core.pairing.ceremony import Admitted, Ending, InviterMet, Joiner
from covey.core.pairing.messages import Admission, JoinerIntroduction, Password
from covey.core.pake import Side
from covey.core.wire.topics import rendezvous_topic
from covey.errors import ConfigurationError, LocalError, PairingError
from covey.limits import INVITE_US, MAXIMUM_CERTIFICATES_BYTES

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.settings import Config
    from covey.ports import Credentials

_NOBODY_YET_US = 15_000_000
"""After so long in vain a person wants to know what to look at."""

_REFUSED_S_MIN, _RETRY_S_MAX = 3.0, 10.0
"""Where two devices pair at a time, the enrolment account is taken from one by the other, and back."""

_ENDINGS = {
    Ending.WRONG_CODE: ("the code is wrong, or somebody interfered; it is used up", "ask for a new one"),
    Ending.TAKEN: ("another device has used this code", "ask for a new one"),
    Ending.DECLINED: ("the other side declined", ""),
    Ending.EXPIRED: (
        "nobody answers at this code, or its ten minutes are over",
        "ask for a new one, and read it again",
    ),
    Ending.CANCELLED: ("the pairing was cancelled", ""),
    Ending.VANISHED: ("the other device has fallen silent", "ask for a new code, and try again"),
    Ending.LEFT: ("the other device has gone", "make a new code, and try again"),
    Ending.INTERRUPTED: ("the agent ended in the middle of the pairing", "make a new code, and try again"),
    Ending.FAILED: ("the inviter could not make an account at the relay", "its messages say why"),
}


def pairing_error(ending: Ending) -> PairingError:
    """Return the error of a ceremony that did not end well."""
    words, hint = _ENDINGS[ending]
    return PairingError(words, ending.value, hint=hint)


def has_authority(config: Config) -> bool:
    """Say whether this device can let others into the relay."""
    return bool(config.broker.password_file or config.broker.ca_folder)


def host_facts(folder: StateFolder, config: Config) -> HostFacts:
    """Return what this device tells those whom it invites."""

    def credentials() -> Credentials:
        from covey.adapters.broker.authority import authority

        found = authority(config.broker, folder.path)
        assert found is not None
        return found

    certificates = ""
    if config.relay.ca_file and Path(config.relay.ca_file).stat().st_size <= MAXIMUM_CERTIFICATES_BYTES:
        certificates = Path(config.relay.ca_file).read_text()
    return HostFacts(config.label, config.relay.url, certificates, credentials if has_authority(config) else None)


def lacks_account(session: Session) -> bool:
    """Say whether this device has nothing that lets it into a relay."""
    config = session.config
    return not (session.folder.relay_password(config) or config.relay.client_certificate)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where a joiner meets its inviter, and by which secret; `pinned` are the inviter's keys where they are known."""

    relay_url: str
    ca_file: Path | None
    enrolment_password_file: str | None
    number: int
    password: tuple[Password, bytes]
    pinned: DeviceKeys | None = None


def join_by_ceremony(session: Session, meeting: Meeting, *, as_json: bool) -> Admission:
    """Go through the ceremony, and keep what it brings: account, relay and the pending join.

    Raises:
        PairingError: it ended otherwise; nothing was kept.
        RelayError: the relay lets nobody in without an account.
        ConfigurationError: a package for pairing is missing, or the relay's settings are not usable.
    """
    from covey.adapters.broker.mosquitto_passwords import ENROLMENT_ACCOUNT
    from covey.adapters.mqtt.relay import MqttRelay
    from covey.adapters.word_list import words_at
    from covey.app.roles.pairing_guest import attend

    secret = meeting.enrolment_password_file
    needs = lacks_account(session) or meeting.relay_url != session.config.relay.url
    own = JoinerIntroduction(session.node.identity.keys, session.config.label, needs)
    begun_us = session.clock.monotonic_us()
    machine = Joiner(
        session.node.identity, own, meeting.password, begun_us + INVITE_US, secrets.token_bytes, meeting.pinned
    )
    relay = MqttRelay(
        "relay",
        meeting.relay_url,
        ENROLMENT_ACCOUNT,
        ENROLMENT_ACCOUNT if secret is None else read_text_file(secret).strip(),
        rendezvous_topic(meeting.number, Side.JOINER),
        ca_file=meeting.ca_file,
        session_expiry_s=0,
        retry_s_max=_RETRY_S_MAX,
        refused_s_min=_REFUSED_S_MIN,
    )
    kept: list[Admission] = []
    own_groups = {group.group_id for group in session.node.membership.groups()}

    def tell(news: InviterMet | Admitted) -> None:
        if isinstance(news, InviterMet) and news.inviter.group_id in own_groups:
            machine.leave()
        elif isinstance(news, Admitted):
            _keep(session, meeting, news.admission, needs=needs)
            kept.append(news.admission)
            machine.stored()
        elif isinstance(news, InviterMet):
            _show(news, words_at(news.verifier), as_json=as_json)

    with stop_signals() as stopping:
        attend(machine, meeting.number, relay, session.clock, tell, report, _patience(session, machine, stopping))
    if stopping and not kept:
        raise KeyboardInterrupt
    if not kept:
        if machine.ending is Ending.CANCELLED and machine.left:
            raise LocalError("this device is in that group already", hint="'covey group show' shows it")
        assert machine.ending is not None
        raise pairing_error(machine.ending)
    return kept[0]


def _patience(session: Session, machine: Joiner, stopping: list[int]) -> Callable[[], bool]:
    """Return what says whether the person has given up, and tells once what to look at."""
    worried_at_us = session.clock.monotonic_us() + _NOBODY_YET_US
    told: list[bool] = []

    def gone() -> bool:
        if not told and not machine.answered and session.clock.monotonic_us() >= worried_at_us:
            told.append(True)
            print("nobody has answered yet: is it the right code, and the right relay?", file=sys.stderr)
        return bool(stopping)

    return gone


def _show(met: InviterMet, words: list[str], *, as_json: bool) -> None:
    inviter = met.inviter
    name = device_name(inviter.keys.signing_public)
    if as_json:
        print_json({"inviter": name, "label": inviter.label, "verifier": words})
        sys.stdout.flush()
    print(f"the other device: {f'{name} {printable(inviter.label)}'.strip()}", file=sys.stderr)
    print(f"verifier words:   {' '.join(words)}", file=sys.stderr)
    print("they must be the same on the other device; waiting for it to accept ...", file=sys.stderr)


def _keep(session: Session, meeting: Meeting, admission: Admission, *, needs: bool) -> None:
    """Make the account and the join durable: files first, then the join, which is what goes on after a restart."""
    from covey.adapters.keys.relay_credential import keep_credential

    folder = session.folder
    if needs:
        changes = {"relay.url": _reachable(admission.relay_url, meeting.relay_url)}
        if admission.certificates:
            authorities = folder.path / "relay-ca.pem"
            write_secret(authorities, admission.certificates.encode())
            changes["relay.ca_file"] = str(authorities)
        elif meeting.ca_file is not None:
            changes["relay.ca_file"] = str(meeting.ca_file.absolute())
        folder.change_config(changes)
        if admission.credential:
            keep_credential(folder, admission.credential)
    with session.store.transaction():
        session.node.request_join(admission.invite, session.config.label, session.now())


def _reachable(told: str, used: str) -> str:
    """Return the relay's URL: as the inviter told it, unless that is the inviter's own machine."""
    from covey.adapters.mqtt.settings import parse_url

    try:
        host, _, _ = parse_url(told)
    except ConfigurationError:
        return used
    try:
        own_machine = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own_machine = host == "localhost"
    return used if own_machine else told


def check_relay_named(url: str) -> str:
    """Return the relay's URL if there is one.

    Raises:
        ConfigurationError: there is none.
    """
    if not url:
        raise ConfigurationError("no relay is named", hint="covey join CODE --relay mqtts://HOST")
    return url
