"""Inviting a device: by a code or a URI that a stranger joins with, or by a message to a member of another group."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib.util import find_spec

from covey.adapters.mqtt.settings import parse_url
from covey.app.device.carriage import announced_payloads
from covey.app.device.device import Device
from covey.app.device.pins import NOBODY
from covey.app.device.relay_access import has_authority, require_relay
from covey.app.groups.groups import pick_member
from covey.app.groups.previews import PreviewedMember, shown_operators
from covey.app.history.writing import group_profile
from covey.app.loop.relay_loop import wait_until
from covey.app.pairing.first_contact import RelayPatience
from covey.app.pairing.joining import pairing_error
from covey.app.pairing.replacing import check_may_replace, replacement_of
from covey.app.relays.broker_access import known_enrolment_password
from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import payload_bytes
from covey.core.ids import DeviceKey, GroupId, device_name, key_from_text, printable
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.invite import Invite
from covey.core.pairing.pending import Pairing
from covey.core.pairing.preview import GroupDescription
from covey.errors import LocalError, MalformedError, RelayError, UsageError
from covey.limits.pairing import INVITE_US, NAMED_OPERATORS, RENDEZVOUS_NUMBERS

_DELIVERY_S = 10.0
"""How long to wait for what follows to be acknowledged."""


_TLS_PORT = 8883
_WITH_PICTURE_BYTES = 65_536
"""The smallest largest envelope of a relay that takes an invitation with a group's picture."""
_SIGNING_KEY = "covey-sign-"
"""How a signing key begins, as people write it."""
_MEMBER_BYTES = 240
"""Of a member in a manifest: two keys, a label, a role and two capabilities take less."""
_TYPED = re.compile(r"[a-z0-9]{1,64}")


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who has come by the code, with the words that both people compare; `lacks_account`: at the relay."""

    name: str
    label: str
    verifier: list[str]
    lacks_account: bool
    signing_public: str
    operators: tuple[PreviewedMember, ...] = ()
    """The operators named to the joiner."""


class InviteEnd(Enum):
    """The end of an invite that was neither revoked nor failed."""

    JOINED = "joined"
    ACCEPTED = "accepted"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class OpenInvitation:
    """An invite that this device has made, as the store knows it; the agent leads its ceremony meanwhile."""

    device: Device
    invite: Invite
    code: str | None

    def _pairing(self) -> Pairing | None:
        found = self.device.store.pairings.all()
        return next((each for each in found if each.secret_hash == self.invite.secret_hash), None)

    def _used_by(self) -> DeviceKey | None:
        found = self.device.store.invites.all()
        return next((each.used_by for each in found if each.secret_hash == self.invite.secret_hash), None)

    def newcomer(self) -> Newcomer | None:
        """Return who has come by the code."""
        pairing = self._pairing()
        if pairing is None or pairing.joiner is None:
            return None
        name, words = device_name(pairing.joiner), _verifier_words(pairing)
        return Newcomer(name, pairing.label, words, pairing.lacks_account, pairing.joiner.hex(), self.operators())

    def operators(self) -> tuple[PreviewedMember, ...]:
        """Return the operators that the new device will obey, if its person agrees."""
        return named_operators(self.device, self.invite.group_id, self.invite.operators)

    def joined(self) -> tuple[str, str] | None:
        """Return the name and the label of the device that has joined with it."""
        key = self._used_by()
        if key is None:
            return None
        self.device.node.refresh()  # where an agent runs, it was the one that let it in
        member = self.device.node.groups.group(self.invite.group_id).member(key)
        return device_name(key), "" if member is None else member.label

    def wait(self, look: Callable[[], None]) -> InviteEnd:
        """Wait until somebody has joined, or nobody can any more; `look` is called meanwhile. An unused invite ends.

        Raises:
            PairingError: the ceremony did not end well.
            RelayError: the relay will not have this device, or is not reached.
        """
        patience = RelayPatience(self.device)

        def over() -> bool:
            look()  # first: who came is told also where all was over in the meantime
            pairing = self._pairing()
            if pairing is None or pairing.joiner is None:
                patience.check()
            return self._used_by() is not None or (pairing is not None and pairing.ended is not None)

        try:
            wait_until(self.device, over, INVITE_US / 1e6)
        except RelayError:
            self.cancel()
            raise
        joiner, pairing = self._used_by(), self._pairing()
        if joiner is not None:
            delivered(self.device, joiner)
            return InviteEnd.JOINED
        if pairing is not None and pairing.accepts and pairing.ended is None:
            return InviteEnd.ACCEPTED
        if pairing is not None and pairing.ended not in {None, Ending.EXPIRED.value}:
            raise pairing_error(Ending(pairing.ended))
        self.cancel()
        return InviteEnd.NOBODY

    def decide(self, *, accepts: bool) -> None:
        """Note whether the person lets the joiner in."""
        with self.device.store.transaction():
            self.device.store.pairings.decide(self.invite.secret_hash, accepts)

    def cancel(self) -> None:
        """End it."""
        with self.device.store.transaction():
            _cancel(self.device, self.invite.secret_hash)


def codes_can_be_drawn() -> bool:
    """Say whether the packages are there that a code needs; without them, the URI has to do."""
    return find_spec("spake2") is not None and find_spec("mnemonic") is not None


def fits_relay(device: Device, group: GroupManifest, newcomers: int) -> bool:
    """Return whether a relay of this device carries the manifest of a group with so many more members."""
    payloads = announced_payloads(device.config.relay, device.store)
    size = device.store.groups.largest_manifest(group.group_id) + newcomers * _MEMBER_BYTES
    return not payloads or payload_bytes([size]) <= max(payloads.values())


def check_room(device: Device, group: GroupManifest, newcomers: int = 1) -> None:
    """Refuse to invite more devices than leave a manifest that a relay of this device carries.

    Raises:
        LocalError: the manifest would be larger; then no member would hear of any further change of the group.
    """
    if not fits_relay(device, group, newcomers):
        payloads = announced_payloads(device.config.relay, device.store)
        raise LocalError(
            f"with {len(group.members) + newcomers} members the group's manifest is larger than "
            f"{'the relay accepts' if len(payloads) == 1 else 'any relay accepts'}: {max(payloads.values())} bytes",
            hint="raise the relay's message limit (mosquitto: max_packet_size), or create another group",
        )


def open_invitation(
    device: Device,
    group: str | None,
    capabilities: tuple[str, ...],
    *,
    accepts_any: bool,
    with_code: bool,
    operators: Sequence[str] | None = None,
    replaces: Member | None = None,
) -> OpenInvitation:
    """Make an invite for one device and ten minutes, perhaps with a code; durable before it is shown.

    `accepts_any`: any device with the code or the URI is admitted without asking the person. `operators` are those that
    the joiner is to obey, as a person writes them; None: those that this device obeys. `replaces` is the member that it
    replaces.

    Raises:
        ConfigurationError: no relay is set.
        LocalError: an operator is ambiguous, or there are too many; or the member cannot be replaced.
    """
    require_relay(device)
    manifest = device.pick_group(group)
    if replaces is not None:
        check_may_replace(manifest, replaces, device.node.identity.signing_public)
    check_room(device, manifest)
    group_id, named = manifest.group_id, named_keys(device, manifest, operators)
    with device.store.transaction():
        now_us = device.now().wall_us
        taken = [each.number for each in device.store.pairings.all() if each.ended is None]
        free = [number for number in range(1, RENDEZVOUS_NUMBERS + 1) if number not in taken]
        number = secrets.choice(free)
        code = _draw_code(number) if with_code else None
        invite = device.node.joining.invite(group_id, capabilities, device.config.relay.url, now_us)
        invite = replace(invite, operators=named, addresses=device.config.relay.addresses)
        if replaces is not None:
            device.store.replacements.open(replacement_of(replaces, invite))
        if has_authority(device.config):  # who has no account at the relay gets one at the rendezvous
            enrolment = known_enrolment_password(device.folder)
            invite = replace(invite, rendezvous=number, enrolment=enrolment)
        if code is not None or invite.rendezvous is not None:
            accepts = True if accepts_any else None
            device.store.pairings.open(
                Pairing(
                    invite.secret_hash,
                    number,
                    code,
                    invite.secret,
                    invite.expires_at_us,
                    accepts,
                    operators=named,
                ),
                now_us,
            )
    return OpenInvitation(device, invite, _with_enrolment(code, invite.enrolment))


def named_keys(device: Device, manifest: GroupManifest, names: Sequence[str] | None) -> tuple[DeviceKey, ...]:
    """Return the keys of the operators for a joiner, ascending.

    `names` are as a person writes them; None: those that this device obeys.

    Raises:
        LocalError: one is ambiguous, or there are too many.
    """
    from covey.app.orders.operators import operators

    if names is None:
        found = {DeviceKey(bytes.fromhex(each.key)) for each in operators(device, manifest)}
    elif list(names) == [NOBODY]:
        found = set()
    else:
        found = {_operator_key(manifest, each) for each in names}
    if len(found) > NAMED_OPERATORS:
        raise LocalError(
            f"an invite can name at most {NAMED_OPERATORS} operators, not {len(found)}",
            hint="choose them: --operator NAME; the new device also obeys operators that these add later",
        )
    return tuple(sorted(found))


def lacks_own_approval(device: Device, group: str | None, names: Sequence[str] | None) -> str:
    """Return how to make this device an operator, if an invite names it as one and its owner has not; else nothing."""
    from covey.app.orders.operators import approval_hint, operator_keys

    if names is None:
        return ""
    manifest, own = device.pick_group(group), device.node.identity.signing_public
    is_missing = own in named_keys(device, manifest, names) and own not in operator_keys(device, manifest)
    return approval_hint(device) if is_missing else ""


def _operator_key(manifest: GroupManifest, name: str) -> DeviceKey:
    if not name.startswith(_SIGNING_KEY):
        return pick_member(manifest, name).keys.signing_public
    try:
        return DeviceKey(key_from_text("sign", name))
    except MalformedError as error:
        raise LocalError(str(error), hint="give a signing key as 'covey key show' prints it") from error


def named_operators(device: Device, group_id: GroupId, keys: Sequence[DeviceKey]) -> tuple[PreviewedMember, ...]:
    """Return operators of an invite as a person reads them, with the labels that the group knows."""
    found = {
        member.keys.signing_public: member.label
        for group in device.node.groups.joined()
        if group.group_id == group_id
        for member in group.members
    }
    return shown_operators(keys, found)


def _with_enrolment(code: str | None, enrolment: str | None) -> str | None:
    """Return a code as a person types it; without a shared password that somebody chose."""
    if code is None or enrolment is None or not _TYPED.fullmatch(enrolment):
        return code
    return f"{code}-{enrolment}"


def code_at_relay(code: str, relay_url: str) -> str | None:
    """Return a code with the place of the relay, as a joiner needs nothing else; None without TLS at the relay."""
    host, port, encrypted = parse_url(relay_url)
    if not encrypted:
        return None
    bracketed = f"[{host}]" if ":" in host else host
    return f"{code}@{bracketed}" + ("" if port == _TLS_PORT else f":{port}")


def _draw_code(number: int) -> str:
    from covey.adapters.word_list import draw_code

    return str(draw_code(secrets.randbelow, number))


def _verifier_words(pairing: Pairing) -> list[str]:
    from covey.adapters.word_list import words_at

    return words_at(pairing.verifier)


def invite_member(device: Device, group: str | None, name: str, capabilities: tuple[str, ...]) -> tuple[Member, bytes]:
    """Send an invitation to a member of another group of ours; return the member, and the id of the group.

    Raises:
        UsageError: not exactly one device of our groups has that name or label.
        ConfigurationError: no relay is set.
    """
    require_relay(device)
    manifest = device.pick_group(group)
    check_room(device, manifest)
    group_id = manifest.group_id
    found = {
        member.keys.signing_public: member
        for group in device.node.groups.joined()
        for member in group.members
        if name in {member.name, member.label} and member.keys.signing_public != device.node.identity.signing_public
    }
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} devices in this device's groups are called '{printable(name)}'",
            hint="'covey group members' lists names and fingerprints",
        )
    ((key, member),) = found.items()
    with device.store.transaction():
        profile = group_profile(device, manifest)
        fits = device.node.state.carriage.maximum_payload >= _WITH_PICTURE_BYTES
        picture = (profile.avatar.mime, profile.avatar.content) if profile.avatar is not None and fits else None
        described = GroupDescription(profile.title, profile.description, picture)
        device.node.actions.invite_member(group_id, key, capabilities, device.now(), described)
    return member, group_id


def qr_code(invite: Invite) -> str:
    """Return the lines of a QR code of the invite's URI; empty where the package that draws it is not there."""
    from covey.adapters.qr_code import terminal_qr

    return terminal_qr(invite.to_uri())


def delivered(device: Device, recipient: DeviceKey) -> bool:
    """Give what waits for a device a short while to be acknowledged; return whether it was."""
    return wait_until(device, lambda: not _waits_for(device, recipient), _DELIVERY_S)


def _waits_for(device: Device, recipient: DeviceKey) -> bool:
    return any(queue.recipient == recipient and queue.queued for queue in device.store.outbox.queues())


def cancel_all(device: Device) -> int:
    """End every invite that nobody has used (codes, URIs, and invitations of members); return how many."""
    with device.store.transaction():
        unused = [each.secret_hash for each in device.store.invites.all() if each.used_by is None]
        for secret_hash in unused:
            _cancel(device, secret_hash)
    return len(unused)


def _cancel(device: Device, secret_hash: bytes) -> None:
    device.store.pairings.end(secret_hash, Ending.CANCELLED.value)
    device.store.invites.cancel(secret_hash)
