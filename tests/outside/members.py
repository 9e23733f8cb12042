"""Sections 9, 14 and 21: who is, or was, in a group. Group manifests come in the file of a group's history.

A manifest counts here if it is well-formed and signed, what it follows counts, and its issuer is a member by one of
those (or, in mode 3, lets itself in). What a vault holds carries no manifest's version: so nothing tells whether a
message of a device came before or after its removal, and an audit asks whether its author was ever a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt as open_aead
from nacl.bindings import crypto_scalarmult
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey
from nacl.secret import SecretBox
from nacl.signing import SigningKey

from tests.outside.primitives import (
    GROUP_ID,
    HASH,
    KEY,
    SIGNATURE,
    UINT63,
    RefusedError,
    Size,
    check_signature,
    either,
    fits,
    grown,
    hashed,
    parsed,
)

_PUBLIC = 3
_FOUNDER_ALLOWANCE = 536_870_912
_MEMBER = (KEY, KEY, str, str, range(2), [str], UINT63, UINT63)
_DOCUMENT = (
    *(1, GROUP_ID, UINT63, [HASH], range(5), either(KEY, None), [list], [(KEY, UINT63)]),
    *(UINT63, HASH, [bytes], KEY),
)
_NONCE = Size(24)
_MANIFEST_BYTES, _MEMBERS, _HEADS = 262_144, 1_000, 16
_LABEL_BYTES, _CAPABILITIES, _CAPABILITY_BYTES, _VOTE_BYTES = 64, 8, 32, 256
_PRIME = 2**255 - 19
_ANY_SECRET = bytes(32)
_SECRETS = 5


class Member(NamedTuple):
    """One device's record in a manifest."""

    key: bytes
    label: str
    capabilities: list[str]


class Manifest(NamedTuple):
    """One state of a group, as its issuer signed it."""

    hash: bytes
    group: bytes
    version: int
    follows: list[bytes]
    mode: int
    members: dict[bytes, Member]
    issuer: bytes


@dataclass(slots=True)
class Membership:
    """Who was in which group, and by which versions."""

    groups: dict[bytes, dict[bytes, list[int]]] = field(default_factory=dict)
    """Of each group the versions that list each device."""
    boards: set[bytes] = field(default_factory=set)

    def was_member(self, device: bytes, group: bytes | None = None) -> bool:
        """Say whether a device was ever in a group, or in any."""
        groups = [self.groups.get(group, {})] if group is not None else self.groups.values()
        return any(device in each for each in groups)


def membership(manifests: Iterable[bytes]) -> Membership:
    """Read manifests that come each after what it follows, from the creation of each group on."""
    found, counted = Membership(), dict[bytes, Manifest]()
    for content in manifests:
        manifest = read_manifest(content)
        before = [counted[each] for each in manifest.follows if each in counted]
        if len(before) < len(manifest.follows) or (not before and manifest.group in found.groups):
            raise RefusedError("version_gap" if manifest.follows else "genesis", f"version {manifest.version}")
        _check_issuer(manifest, before)
        counted[manifest.hash] = manifest
        for member in manifest.members.values():
            found.groups.setdefault(manifest.group, {}).setdefault(member.key, []).append(manifest.version)
            if "board" in member.capabilities:
                found.boards.add(member.key)
    return found


def _check_issuer(manifest: Manifest, before: Sequence[Manifest]) -> None:
    if not before:
        return
    if any(each.group != manifest.group or each.mode != manifest.mode for each in before):
        raise RefusedError("malformed", "group or mode")
    if manifest.version != 1 + max(each.version for each in before):
        raise RefusedError("version_gap", f"version {manifest.version}")
    invites_itself = manifest.mode == _PUBLIC and manifest.issuer in manifest.members
    if not invites_itself and not any(manifest.issuer in each.members for each in before):
        raise RefusedError("unknown_issuer", manifest.issuer.hex())


def read_manifest(content: bytes) -> Manifest:
    """Verify and return a group manifest: M1 to M7."""
    signature, document = parsed(content, (SIGNATURE, bytes))
    _, group, version, follows, mode, invited, members, banned, epoch, _, votes, issuer = grown(document, _DOCUMENT)
    members = [each[:-1] if each and isinstance(each[-1], dict) else each for each in members]  # what it announces
    if not all(fits(each, _MEMBER) for each in members):
        raise RefusedError("malformed", "shape")
    check_signature("covey/1 group manifest", issuer, signature, document)
    _check_bounds(content, follows, members, votes)
    keys, noise = [member[0] for member in members], [member[1] for member in members]
    bans = [ban[0] for ban in banned]
    genesis = version == 1
    well_formed = (
        version >= 1
        and bool(follows) != genesis
        and all(_ascending(each) for each in (follows, keys, bans, votes, *(member[5] for member in members)))
        and len(set(noise)) == len(noise)
        and all(map(_is_usable, noise))
        and not set(keys) & set(bans)
        and all(member[2] == member[0][:4].hex() for member in members)
        and all(1 <= since <= version for since in (*(member[6] for member in members), *(ban[1] for ban in banned)))
        and (invited is None) == (mode != 0)
        and not (genesis and invited == issuer)
        and (not genesis or (keys == [issuer] and members[0][4] == (mode not in {2, 4}) and not bans and not votes))
        and (not genesis or epoch == 1)
        and all(0 <= member[7] <= _FOUNDER_ALLOWANCE for member in members)
        and (not genesis or members[0][7] == _FOUNDER_ALLOWANCE)
    )
    if not well_formed:
        raise RefusedError("malformed", f"manifest of version {version}")
    listed = {key: Member(key, label, capabilities) for key, _, _, label, _, capabilities, _, _ in members}
    return Manifest(hashed(content, "covey/1 gm hash"), group, version, follows, mode, listed, issuer)


def _check_bounds(content: bytes, follows: list[bytes], members: list[Any], votes: list[bytes]) -> None:
    within = (
        len(content) <= _MANIFEST_BYTES
        and len(follows) <= _HEADS
        and 1 <= len(members) <= _MEMBERS
        and all(len(label.encode()) <= _LABEL_BYTES for _, _, _, label, *_ in members)
        and all(len(capabilities) <= _CAPABILITIES for *_, capabilities, _, _ in members)
        and all(len(each.encode()) <= _CAPABILITY_BYTES for *_, capabilities, _, _ in members for each in capabilities)
        and all(len(vote) <= _VOTE_BYTES for vote in votes)
    )
    if not within:
        raise RefusedError("limit", "manifest")


def _is_usable(noise: bytes) -> bool:
    """Say whether an X25519 public key is below the prime, and of no small order."""
    try:
        crypto_scalarmult(_ANY_SECRET, noise)
    except (CryptoError, RuntimeError):
        return False
    return int.from_bytes(noise, "little") < _PRIME


def _ascending(values: Sequence[Any]) -> bool:
    return all(before < after for before, after in pairwise(values))


def manifests_in(file: bytes, reader: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """Return the group manifests in a history file, which is sealed for a reader with these noise secrets."""
    header, *parts = _byte_strings(file)
    _, ephemeral, nonce, sealed = parsed(header, ("covey/1 history", KEY, _NONCE, [(KEY, Size(48))]))
    key = _opened([box for member, box in sealed if member == reader], PublicKey(ephemeral), nonce, secrets)
    manifests: list[bytes] = []
    for number, part in enumerate(parts, 1):
        place = (number - 1).to_bytes(8, "big") + bytes([number == len(parts)]) + bytes(15)
        try:
            plaintext = SecretBox(key).decrypt(part, place)
        except CryptoError:
            raise RefusedError("malformed", f"part {number}") from None
        _, kind, documents = parsed(plaintext, (GROUP_ID, range(2), [bytes]))
        manifests += documents if kind == 0 else []
    return manifests


def _byte_strings(file: bytes) -> list[bytes]:
    stream, found = BytesIO(file), []
    try:
        while stream.tell() < len(file):
            found.append(bytes(cbor2.load(stream)))
    except (cbor2.CBORError, TypeError) as error:
        raise RefusedError("malformed", "history file") from error
    if not found:
        raise RefusedError("malformed", "an empty file")
    return found


def _opened(boxes: list[bytes], ephemeral: PublicKey, nonce: bytes, secrets: Iterable[bytes]) -> bytes:
    for box in boxes:
        for secret in secrets:
            try:
                return Box(PrivateKey(secret), ephemeral).decrypt(box, nonce)
            except CryptoError:
                continue
    raise RefusedError("not_for_us", "this file is not for this reader")


def read_identity(folder: Path) -> tuple[bytes, list[bytes]]:
    """Return the signing key, and the noise secrets, of a device whose key files lie here without a passphrase."""
    _, seed = parsed((folder / "identity.key").read_bytes(), (1, Size(32)))
    content = (folder / "noise.keys").read_bytes()
    _, nonce, sealed = parsed(content, (1, _NONCE, bytes))
    head = cbor2.dumps([1, nonce])
    key = HKDF(SHA256(), 32, None, b"covey/1 noise keys").derive(seed)
    try:
        plaintext = open_aead(sealed, b"covey/1 noise keys" + head, nonce, key)
    except CryptoError:
        raise RefusedError("decryption", "noise.keys") from None
    secrets = parsed(plaintext, [(KEY, UINT63)])
    if not 1 <= len(secrets) <= _SECRETS:
        raise RefusedError("malformed", "noise.keys")
    return bytes(SigningKey(seed).verify_key), [secret for secret, _ in secrets]
