"""key_files.json: `identity.key` in each form, `noise.keys` and `vault.key`."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey.core.ids import EpochId, GroupId, VaultId
from covey.core.vault.key_file import KeyFile, VaultKeyReader
from covey.core.vault.keys import VaultKey
from covey.limits.key import ARGON2_MEMORY_KIB_MIN, ARGON2_PASSES_MIN
from tests.vectors.makers.cast import ALICE, BOB, NOW_US, cbor, flip, keys, seeded

_PASSPHRASE = b"correct horse"


def _under_passphrase(plain: bytes) -> bytes:
    head = [2, seeded("salt", 16), ARGON2_PASSES_MIN, ARGON2_MEMORY_KIB_MIN, seeded("nonce", 24)]
    key = crypto.argon2id(_PASSPHRASE, seeded("salt", 16), ARGON2_PASSES_MIN, ARGON2_MEMORY_KIB_MIN).reveal()
    return cbor([*head, crypto.aead_seal(plain, b"covey/1 identity" + cbor(head), seeded("nonce", 24), key)])


def _noise(rows: list[list[object]]) -> bytes:
    head = [1, seeded("noise nonce", 24)]
    key = crypto.hkdf_sha256(ALICE.signing_seed, b"", b"covey/1 noise keys", 32)
    return cbor(
        [*head, crypto.aead_seal(cbor(rows), b"covey/1 noise keys" + cbor(head), seeded("noise nonce", 24), key)]
    )


def _vault_keys() -> list[tuple[str, str | None, str]]:
    keys = tuple(VaultKey(VaultId(seeded("vault", 16)), seeded(f"vault key {at}", 32), at) for at in (NOW_US, 0))
    epochs = {GroupId(seeded(f"group {each}", 32)): EpochId(seeded(f"epoch {each}", 32)) for each in "ba"}
    readers = (VaultKeyReader(BOB.noise_public, BOB.signing_public), VaultKeyReader(ALICE.noise_public))
    whole, one = KeyFile(keys, epochs, readers, seeded("reader", 32)).to_text(), KeyFile(keys[:1]).to_text()
    other = VaultKey(VaultId(seeded("another vault", 16)), keys[0].key)
    return [
        ("one key", None, one),
        ("two keys, epochs and readers", None, whole),
        ("another vault", "configuration", one.replace(keys[0].vault_id.hex(), other.vault_id.hex())),
        ("another key", "configuration", one.replace(keys[0].key.hex(), keys[1].key.hex())),
        ("another reader secret", "configuration", whole.replace(seeded("reader", 32).hex(), "11" * 32)),
        ("another epoch", "configuration", whole.replace(seeded("epoch a", 32).hex(), seeded("epoch c", 32).hex())),
        ("without a check", "configuration", one[: one.index(', "check"')] + "}\n"),
    ]


def make() -> dict[str, Any]:
    """Return the file; every file is alice's."""
    seed, rotated = ALICE.signing_seed, [[BOB.noise_secret, 0], [ALICE.noise_secret, NOW_US]]
    identities: list[tuple[str, str | None, bytes]] = [
        ("in the clear", None, cbor([1, seed])),
        ("under a passphrase", None, _under_passphrase(cbor([1, seed]))),
        ("of a board", "configuration", cbor([1, seed, ALICE.noise_secret])),
        ("damaged", "configuration", flip(_under_passphrase(cbor([1, seed])), -1)),
        ("seed of 31 bytes", "configuration", cbor([1, seed[:31]])),
        ("unknown form", "configuration", cbor([3, seed])),
    ]
    noise: list[tuple[str, str | None, bytes]] = [
        ("one key", None, _noise([[ALICE.noise_secret, 0]])),
        ("after a rotation", None, _noise(rotated)),
        ("none", "configuration", _noise([])),
        ("damaged", "configuration", flip(_noise(rotated), -1)),
        ("six keys", "configuration", _noise(rotated * 3)),
    ]
    return {
        "about": "Section 14. The passphrase is `passphrase`; noise keys are given newest first.",
        "keys": keys(),
        "passphrase": _PASSPHRASE.decode(),
        "identities": [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in identities],
        "noise_keys": [
            {"name": name, "bytes": raw.hex(), "code": code}
            | (
                {"secrets": ([["bob", 0], ["alice", NOW_US]] if "rotation" in name else [["alice", 0]])}
                if not code
                else {}
            )
            for name, code, raw in noise
        ],
        "vault_keys": [{"name": name, "text": text, "code": code} for name, code, text in _vault_keys()],
    }
