"""Joining a group by the code or the URI of an invite; `invitations.py` has those to further groups."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from covey.adapters.journal import report
from covey.adapters.keys.key_file import write_secret
from covey.adapters.mqtt.settings import Place, parse_url
from covey.app.device.addresses import host_and_port
from covey.app.device.device import Device
from covey.app.device.known_labels import own_label
from covey.app.device.live_settings import LiveSettings
from covey.app.device.relay_access import lacks_account
from covey.app.groups.previews import PreviewedGroup, PreviewedMember, labels_of, previewed, shown_operators
from covey.app.loop.relay_loop import stop_signals, wait_until
from covey.app.pairing import first_contact
from covey.app.pairing.first_contact import RelayPatience
from covey.config.schema import Value
from covey.core.crypto import DeviceKeys, digest
from covey.core.group.manifest import GroupManifest
from covey.core.ids import DeviceKey, GroupId, device_name
from covey.core.pairing.ceremony import ENDINGS, Admitted, Ending, InviterMet, RefusalReceived
from covey.core.pairing.invite import Invite
from covey.core.pairing.joiner import Joiner, JoinerNews
from covey.core.pairing.messages import Admission, InviterIntroduction, JoinerIntroduction, Password
from covey.core.pairing.uri import GROUP_URI_PREFIX, URI_SCHEME, GroupUri
from covey.core.pake import Side
from covey.core.wire.topics import rendezvous_topic
from covey.errors import ConfigurationError, LocalError, PairingError, RelayError, TimeUpError
from covey.limits.pairing import INVITE_US

if TYPE_CHECKING:
    from covey.adapters.mqtt.relay import MqttRelay

_CODE_DOMAIN = b"covey/1 usedcode"

_NOBODY_YET_US = 15_000_000
"""After so long in vain a person wants to know what to look at."""

_UNREACHED_US = 30_000_000
"""A relay that was there a moment ago, and does not let this device speak with it for so long, never will."""

_DESERTED_US = 30_000_000
"""An agent that restarts is subscribed again by then; where the relay says for longer that nobody listens, the code was
used or cancelled."""

_REFUSED_S_MIN, _RETRY_S_MAX = 3.0, 10.0
"""Where two devices pair at a time, the enrolment account is taken from one by the other, and back."""

_CODE_SCHEME = "mqtts://"
"""What a code leaves out before the place of its relay: the ceremony proves who is there only where there is TLS."""

_LAST_WORDS_S = 3.0
"""The inviter's acknowledgement of our request follows its answer; without it the request would go again later."""

_ENDINGS = {
    Ending.WRONG_CODE: ("the code is wrong, or someone interfered", "read it again, or ask for a new one"),
    Ending.TAKEN: ("another device has used this code", "ask for a new one"),
    Ending.DECLINED: ("the other side declined", ""),
    Ending.EXPIRED: (
        "no device answers to this code, or its ten minutes are over",
        "ask for a new one, and read it again",
    ),
    Ending.CANCELLED: ("the pairing was cancelled", ""),
    Ending.VANISHED: ("the other device has fallen silent", "ask for a new code, and try again"),
    Ending.LEFT: ("the other device has left", "make a new code, and try again"),
    Ending.INTERRUPTED: ("the agent ended in the middle of the pairing", "make a new code, and try again"),
    Ending.FAILED: ("the inviter could not make an account at the relay", "its messages say why"),
}


def pairing_error(ending: Ending) -> PairingError:
    """Return the error of a ceremony that did not end well."""
    words, hint = _ENDINGS[ending]
    return PairingError(words, ending.value, hint=hint)


class Witness(Protocol):
    """The person who joins, as far as they are told how it goes."""

    def looking(self) -> None:
        """A ceremony begins: the other device is being looked for."""

    def nobody_yet(self) -> None:
        """Nobody has answered for a while."""

    def refused(self, reason: str) -> None:
        """Somebody at the rendezvous says why this device is not let in. Nobody has proved it, and nothing ends."""

    def met(
        self,
        name: str,
        label: str,
        verifier: list[str],
        group: PreviewedGroup,
        operators: tuple[PreviewedMember, ...],
    ) -> None:
        """The inviter answered: the person compares the verifier words, and sees the group and its operators.

        `operators` are those that the inviter names.
        """

    def obeys(self, operators: tuple[PreviewedMember, ...]) -> bool:
        """Return whether this device is to obey the operators that its inviter names; there may be none."""

    def keeps_own(self) -> None:
        """The configuration, not an inviter, says which operators this device obeys."""

    def relay_taken(self, url: str) -> None:
        """The invite's relay is used from now on."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the person names in addition to the code: the relay, its authorities, and its shared enrolment password."""

    relay_url: str | None = None
    ca_file: str | None = None
    enrolment_password: str | None = None
    personal: bool = False
    """Whether it is the group of the person's own devices."""
    commands: tuple[str, ...] = ()
    """What the operators that are obeyed by this invite may have the device do, where its settings name nothing."""

    def check(self) -> None:
        """Check what is named, before anybody is asked.

        Raises:
            ConfigurationError: the file of authorities is not usable.
        """
        if self.ca_file:
            from covey.adapters.mqtt.tls import tls_context

            tls_context(Path(self.ca_file))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where a joiner meets its inviter, and by which secret; `pinned` are the inviter's keys where they are known."""

    relay_url: str
    places: tuple[Place, ...]
    """Where else the relay may be."""
    ca_file: Path | None
    number: int
    password: tuple[Password, bytes]
    enrolment: str | None
    pinned: DeviceKeys | None = None
    account: tuple[str, str] | None = None
    """User name and credential, where that is not the account which joiners share."""
    patience_us: int = INVITE_US


def ask_to_join(device: Device, text: str, terms: Terms, witness: Witness, seconds: float) -> tuple[Device, GroupId]:
    """Make a request to join durable, after a ceremony where one is needed, which may take so long.

    Return the device as it then is, and the id of the group.

    Raises:
        LocalError: the text is neither code nor invite, or no device waits for the code.
        TimeUpError: the ceremony took longer.
        PairingError: the ceremony ended otherwise; nothing was kept.
        RelayError: the relay lets nobody in without an account.
        ConfigurationError: no relay is given, a package for pairing is missing, or the relay's settings are no use.
    """
    if text.startswith(GROUP_URI_PREFIX):
        return _ask_members(device, GroupUri.from_uri(text), witness)
    meeting, invite = _read(device, text, terms)
    if meeting is not None:
        code = _name_of_code(meeting)
        used_for = device.store.conditions.values().get(code, ("", 0))[0]
        if used_for and any(group.group_id.hex() == used_for for group in device.node.groups.joined()):
            raise LocalError(
                f"this device has already used that code and is in its group {used_for[:8]}",
                hint="'covey group show' shows the group; each device needs its own code",
            )
        witness.looking()
        try:
            patience_us = min(meeting.patience_us, int(seconds * 1e6))
            invite, inviter = meet(device, replace(meeting, patience_us=patience_us), terms, witness)
        except PairingError as error:
            if Ending(error.code) is not Ending.EXPIRED or patience_us == meeting.patience_us:
                raise
            raise TimeUpError(
                f"the other device has not answered in {seconds:g} s",
                hint="check the code and the relay; each device needs its own code, which lasts 10 minutes",
            ) from error
        with device.store.transaction():
            device.store.conditions.set(code, invite.group_id.hex(), device.now().wall_us)
        return take_admission(device, invite, inviter, terms, witness)
    assert invite is not None
    return ask_inviter(device, invite, terms, witness)


def _name_of_code(meeting: Meeting) -> str:
    return f"code {digest(_CODE_DOMAIN, meeting.password[1]).hex()[:16]}"


def take_admission(
    device: Device, invite: Invite, inviter: InviterIntroduction, terms: Terms, witness: Witness
) -> tuple[Device, GroupId]:
    """Continue with the account and the request that a ceremony has delivered."""
    obeyed = _obeyed(device, inviter.operators, labels_of(inviter), witness)
    with device.store.transaction():
        _pin(device, invite, obeyed, personal=terms.personal)
    _allow(device, obeyed, terms.commands)
    return replace(device, live=LiveSettings(device.folder.configuration.config()), fresh_account=True), invite.group_id


def ask_inviter(
    device: Device, invite: Invite, terms: Terms, witness: Witness, authorities: Path | None = None
) -> tuple[Device, GroupId]:
    """Ask the inviter by the device's own account, without a ceremony. Else as `ask_to_join`."""
    obeyed = _obeyed(device, invite.operators, {}, witness)
    with device.store.transaction():
        device.node.actions.request_join(invite, own_label(device), device.now())
        _pin(device, invite, obeyed, personal=terms.personal)
        takes_relay = _take_relay(device, invite.relay_url, invite.addresses, authorities)
    _allow(device, obeyed, terms.commands)
    return _on_relay(device, invite.relay_url, witness, taken=takes_relay), invite.group_id


def _allow(device: Device, operators: tuple[DeviceKey, ...], commands: tuple[str, ...]) -> None:
    """Let the present operators run these actions, if the owner's settings name none."""
    if operators and commands and not device.config.operations.commands:
        device.folder.configuration.change({"operations.commands": commands})


def _obeyed(
    device: Device, operators: tuple[DeviceKey, ...], labels: Mapping[DeviceKey, str], witness: Witness
) -> tuple[DeviceKey, ...]:
    """Return which of an invite's operators to obey: the person decides unless the configuration does."""
    if device.config.operations.operators:
        witness.keeps_own()
        return ()
    return operators if witness.obeys(shown_operators(operators, labels)) else ()


def _pin(device: Device, invite: Invite, operators: tuple[DeviceKey, ...], *, personal: bool) -> None:
    """Pin these operators in the invite's group, replacing those of an earlier invite."""
    if personal:
        device.store.personal.pin(invite.group_id)
    inviter = invite.inviter.signing_public
    device.store.invited_operators.pin(invite.group_id, operators, inviter, device.now().wall_us)


def _ask_members(device: Device, uri: GroupUri, witness: Witness) -> tuple[Device, GroupId]:
    """Make a request to the members of a public group durable. Else as `ask_to_join`."""
    with device.store.transaction():
        device.store.invited_operators.forget(uri.group_id)
        device.node.actions.request_visit(uri, own_label(device), device.now())
        takes_relay = _take_relay(device, uri.relay_url)
    return _on_relay(device, uri.relay_url, witness, taken=takes_relay), uri.group_id


def _take_relay(device: Device, url: str, addresses: tuple[str, ...] = (), authorities: Path | None = None) -> bool:
    """Use a URI's relay where none is set, with the authorities that came with it; return whether it is.

    A request that is refused changes no setting, and one that is kept has its relay.
    """
    if device.config.relay.url or not url:
        return False
    places_of(url, addresses)
    changes: dict[str, Value | None] = {"relay.url": url, "relay.addresses": addresses}
    if authorities is not None:
        changes["relay.ca_file"] = str(authorities)
    device.folder.configuration.change(changes)
    return True


def _on_relay(device: Device, url: str, witness: Witness, *, taken: bool) -> Device:
    if not taken:
        return device
    witness.relay_taken(url)
    return replace(device, live=LiveSettings(device.folder.configuration.config()))


def _read(device: Device, text: str, terms: Terms) -> tuple[Meeting | None, Invite | None]:
    named = terms.relay_url or device.config.relay.url
    ca_file = terms.ca_file or device.config.relay.ca_file
    authorities = Path(ca_file) if ca_file else None
    if not text.startswith(URI_SCHEME):
        from covey.adapters.word_list import typed_code

        spoken, _, place = text.partition("@")
        named = terms.relay_url or (f"{_CODE_SCHEME}{place}" if place else named)
        code = typed_code(spoken)
        password = (Password.CODE, code.password)
        return Meeting(_named_relay(named), (), authorities, code.number, password, code.enrolment), None
    invite = Invite.from_uri(text)
    if invite.rendezvous is None or not lacks_account(device):
        return None, invite
    url = _named_relay(named or invite.relay_url)
    places = places_of(url, invite.addresses) if url == invite.relay_url else ()
    password = (Password.URI, invite.secret)
    return Meeting(url, places, authorities, invite.rendezvous, password, invite.enrolment, invite.inviter), None


def places_of(url: str, addresses: Iterable[str]) -> tuple[Place, ...]:
    """Return where else than at its URL an invite says that a relay may be: nowhere without TLS, which tells who it is.

    Raises:
        ConfigurationError: the URL, or an address, is none.
    """
    places = tuple(host_and_port(each, "relay.addresses") for each in addresses)
    return places if parse_url(url)[2] else ()


def _named_relay(url: str) -> str:
    if not url:
        raise ConfigurationError("no relay is given", hint="covey join CODE --relay mqtts://HOST")
    return url


def await_group(device: Device, group_id: GroupId, seconds: float) -> GroupManifest | None:
    """Wait until the inviter has let this device in; return the group, or None where no answer has come.

    Raises:
        RelayError: the relay will not have this device, or is not reached; the request is kept.
    """

    patience = RelayPatience(device)

    def joined() -> bool:
        device.node.groups.refresh()
        patience.check()
        return any(group.group_id == group_id for group in device.node.groups.joined())

    if not wait_until(device, joined, seconds):
        return None
    wait_until(device, lambda: device.store.outbox.totals()[0] == 0, _LAST_WORDS_S)
    return device.node.groups.group(group_id)


# -- the ceremony -----------------------------------------------------------------------------------------------------


def meet(device: Device, meeting: Meeting, terms: Terms, witness: Witness) -> tuple[Invite, InviterIntroduction]:
    """Go through the ceremony, and keep what it brings: account, relay and the pending join."""
    from covey.adapters.word_list import words_at
    from covey.app.pairing.pairing_guest import attend

    needs = lacks_account(device) or meeting.relay_url != device.config.relay.url
    proved = _first_contact(device, meeting)
    own = JoinerIntroduction(device.node.identity.keys, own_label(device), needs)
    begun_us = device.clock.monotonic_us()
    machine = Joiner(
        device.node.identity, own, meeting.password, begun_us + meeting.patience_us, secrets.token_bytes, meeting.pinned
    )
    relay = _relay_of(device, meeting, terms, proved=proved)
    kept: list[Admission] = []
    inviters: list[InviterIntroduction] = []
    own_groups = {group.group_id for group in device.node.groups.joined()}

    def on_news(news: JoinerNews) -> None:
        if isinstance(news, RefusalReceived):
            witness.refused(_ENDINGS[ENDINGS[news.reason]][0])
        elif isinstance(news, InviterMet) and news.inviter.group_id in own_groups:
            machine.leave()
        elif isinstance(news, Admitted):
            if not proved:
                _prove(device, meeting, news.admission)
            _keep(device, meeting, news.admission, needs=needs)
            kept.append(news.admission)
            machine.stored()
        elif isinstance(news, InviterMet):
            inviter = news.inviter
            inviters.append(inviter)
            name, words = device_name(inviter.keys.signing_public), words_at(news.verifier)
            group = previewed(inviter.group_id, inviter.preview)
            operators = shown_operators(inviter.operators, labels_of(inviter))
            witness.met(name, inviter.label, words, group, operators)

    with stop_signals() as stopping:
        gone = _patience(device, machine, witness, stopping)
        try:
            by_code = meeting.account is None  # a device with a file is unattended, and keeps trying
            attend(
                machine,
                meeting.number,
                relay,
                device.clock,
                on_news,
                report,
                gone,
                unreached_us=_UNREACHED_US if by_code else None,
                deserted_us=_DESERTED_US if by_code else None,
            )
        except RelayError as error:
            if meeting.account is None:
                raise
            raise RelayError(
                "the relay refuses this file's account: the file was used, cancelled or has expired",
                hint="ask for a new file; 'covey invite --list' on the inviting device shows what happened to this one",
            ) from error
    if stopping and not kept:
        raise KeyboardInterrupt
    if not kept:
        if machine.ending is Ending.CANCELLED and machine.left:
            raise LocalError("this device is already in that group", hint="'covey group show' shows it")
        assert machine.ending is not None
        raise pairing_error(machine.ending)
    return kept[0].invite, inviters[0]


def _relay_of(device: Device, meeting: Meeting, terms: Terms, *, proved: bool) -> MqttRelay:
    """Return the connection to the rendezvous: by the account that joiners share, or by one's own for this meeting."""
    from covey.adapters.broker.mosquitto_passwords import ENROLMENT_ACCOUNT
    from covey.adapters.keys.relay_credential import BUNDLE_FILE, is_certificate
    from covey.adapters.mqtt.relay import MqttRelay
    from covey.adapters.mqtt.settings import ClientCertificate

    shared = terms.enrolment_password or meeting.enrolment or ENROLMENT_ACCOUNT
    user_name, credential = meeting.account or (ENROLMENT_ACCOUNT, shared)
    certified = is_certificate(credential)
    return MqttRelay(
        "relay",
        meeting.relay_url,
        user_name,
        "" if certified else credential,
        rendezvous_topic(meeting.number, Side.JOINER),
        ca_file=meeting.ca_file,
        client=ClientCertificate(Path(BUNDLE_FILE), None, credential.encode()) if certified else None,
        allow_tls12=device.config.relay.allow_tls12,
        proved=proved,
        find=(lambda: list(meeting.places)) if meeting.places else None,
        session_expiry_s=0,
        retry_s_max=_RETRY_S_MAX,
        refused_s_min=_REFUSED_S_MIN,
    )


def _patience(device: Device, machine: Joiner, witness: Witness, stopping: list[int]) -> Callable[[], bool]:
    """Return a function that says whether the person gave up, and reports once that nobody has answered yet."""
    worried_at_us = device.clock.monotonic_us() + _NOBODY_YET_US
    warned: list[bool] = []

    def gone() -> bool:
        if not warned and not machine.answered and device.clock.monotonic_us() >= worried_at_us:
            warned.append(True)
            witness.nobody_yet()
        return bool(stopping)

    return gone


def _first_contact(device: Device, meeting: Meeting) -> bool:
    allow_tls12 = device.config.relay.allow_tls12
    with stop_signals() as stopping:
        proved = first_contact.is_proved(
            meeting.relay_url,
            meeting.ca_file,
            allow_tls12=allow_tls12,
            given_up=lambda: bool(stopping),
            places=meeting.places,
        )
    if stopping:
        raise KeyboardInterrupt
    return proved


def _prove(device: Device, meeting: Meeting, admission: Admission) -> None:
    url = _reachable(admission.relay_url, meeting.relay_url)
    first_contact.prove(url, admission.certificates, allow_tls12=device.config.relay.allow_tls12, places=meeting.places)


def _keep(device: Device, meeting: Meeting, admission: Admission, *, needs: bool) -> None:
    """Make the account and the join durable: files first, then the join, which continues after a restart."""
    from covey.adapters.keys.relay_credential import keep_credential

    folder = device.folder
    if needs:
        url = _reachable(admission.relay_url, meeting.relay_url)
        changes: dict[str, Value | None] = {"relay.url": url}
        if url == admission.relay_url:
            places_of(url, admission.invite.addresses)
            changes["relay.addresses"] = admission.invite.addresses
        if admission.certificates:
            authorities = folder.path / "relay-ca.pem"
            write_secret(authorities, admission.certificates.encode())
            changes["relay.ca_file"] = str(authorities)
        elif meeting.ca_file is not None:
            changes["relay.ca_file"] = str(meeting.ca_file.absolute())
        folder.configuration.change(changes)
        if admission.credential:
            keep_credential(folder, admission.credential, device.node.identity)
    with device.store.transaction():
        device.node.actions.request_join(admission.invite, own_label(device), device.now())


def _reachable(announced: str, used: str) -> str:
    """Return the relay's URL: the inviter's, unless it names the inviter's own machine."""
    try:
        host, _, _ = parse_url(announced)
    except ConfigurationError:
        return used
    try:
        own_machine = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own_machine = host == "localhost"
    return used if own_machine else announced
