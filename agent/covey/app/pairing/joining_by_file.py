"""Join with an invite file that a hub wrote (`preparing.py`), without a person at the device."""

from __future__ import annotations

import ssl
import time
from dataclasses import replace
from pathlib import Path

from covey.adapters.journal import report
from covey.adapters.keys.key_file import write_secret
from covey.app.device.device import Device
from covey.app.device.relay_access import lacks_account
from covey.app.pairing.invite_file import InviteFile
from covey.app.pairing.joining import Meeting, Terms, Witness, ask_inviter, meet, places_of, take_admission
from covey.core.ids import GroupId
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.messages import Password
from covey.errors import LocalError, PairingError, RelayError
from covey.limits.pairing import INVITE_US

_INVITE_CA = "invite-ca.pem"
"""The relay's authorities from an invite file, in the state folder."""

_RETRY_S = 2.0


def ask_by_file(
    device: Device, file: InviteFile, seconds: float, terms: Terms, witness: Witness
) -> tuple[Device, GroupId]:
    """Make a request to join durable with an invite file; without an inviter or a relay, keep trying for so long.

    The relay and authorities in `terms` precede the file's. Return the resulting device, and the group's id.

    Raises:
        LocalError: this device is in the group, or the invite has expired.
        PairingError: the ceremony failed; nothing was stored.
        RelayError: the relay is unreachable or another one, or the file is no longer valid.
    """
    terms = replace(terms, commands=file.commands)
    invite = file.invite
    if terms.relay_url:
        invite = replace(invite, relay_url=terms.relay_url, addresses=())
    if any(group.group_id == invite.group_id for group in device.node.groups.joined()):
        raise LocalError("this device is already in that group", hint="'covey group show' shows it")
    authorities = Path(terms.ca_file) if terms.ca_file else None
    if authorities is None and file.certificates:
        authorities = device.folder.path / _INVITE_CA
        write_secret(authorities, file.certificates.encode())
    if invite.rendezvous is None or not file.credential or not lacks_account(device):
        return ask_inviter(device, invite, terms, witness, authorities)
    meeting = Meeting(
        invite.relay_url,
        places_of(invite.relay_url, invite.addresses),
        authorities,
        invite.rendezvous,
        (Password.URI, invite.secret),
        None,
        invite.inviter,
        (file.account, file.credential),
    )
    witness.looking()
    deadline = time.monotonic() + seconds
    while True:
        left_us = int((deadline - time.monotonic()) * 1e6)
        meeting = replace(meeting, patience_us=max(0, min(INVITE_US, left_us)))
        try:
            admitted = meet(device, meeting, terms, witness)
        except (PairingError, RelayError) as error:
            if time.monotonic() >= deadline or not _passes(error):
                raise
            report("warning", f"{error}; trying again")
            time.sleep(_RETRY_S)
        else:
            return take_admission(device, *admitted, terms, witness)


def _passes(error: PairingError | RelayError) -> bool:
    """Return whether waiting may help: no inviter, no relay, or no known time yet."""
    if isinstance(error, PairingError):
        return Ending(error.code) in {Ending.EXPIRED, Ending.VANISHED, Ending.CANCELLED}
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "not yet valid" in cause.verify_message  # a machine without a battery learns the time only later
    return isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)
