"""Where vectors come from: files in `tests/vectors`, Wycheproof's JSON, and what PyNaCl says to seeded random input."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

from nacl import bindings

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"
PUBLISHED = FOLDER / "tweetnacl.txt"


def _tests(name: str) -> Iterator[tuple[dict[str, object], dict[str, str]]]:
    for group in json.loads((FOLDER / "wycheproof" / name).read_text())["testGroups"]:
        for test in group["tests"]:
            yield group, test


def wycheproof_x25519() -> Iterator[str]:
    """Yield Wycheproof's X25519; a shared secret of zeros is one that libsodium refuses to give."""
    for _, test in _tests("x25519_test.json"):
        expected = test["shared"] if any(bytes.fromhex(test["shared"])) else "refused"
        yield f"scalarmult {test['private']} {test['public']} {expected}"


def wycheproof_ed25519() -> Iterator[str]:
    """Yield Wycheproof's Ed25519 verification."""
    for group, test in _tests("ed25519_test.json"):
        key = group["publicKey"]["pk"]  # type: ignore[index]
        expected = (test["msg"] or "-") if test["result"] == "valid" else "refused"
        yield f"verify {test['sig'] or '-'} {test['msg'] or '-'} {key} {expected}"


def from_pynacl(seed: int = 25519) -> Iterator[str]:
    """Yield lines whose answers PyNaCl computed, over all lengths around the block sizes."""
    rng = random.Random(seed)  # noqa: S311 - test data
    for length in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 111, 112, 127, 128, 129, 239, 240, 256, 300):
        message, nonce, key = rng.randbytes(length), rng.randbytes(24), rng.randbytes(32)
        text = message.hex() or "-"
        box = bindings.crypto_secretbox(message, nonce, key)
        yield f"hash {text} {bindings.crypto_hash(message).hex()}"
        yield f"secretbox {text} {nonce.hex()} {key.hex()} {box.hex()}"
        yield f"secretbox_open {box.hex()} {nonce.hex()} {key.hex()} {text}"
        damaged = bytearray(box)
        damaged[rng.randrange(len(box))] ^= 1 << rng.randrange(8)
        yield f"secretbox_open {damaged.hex()} {nonce.hex()} {key.hex()} refused"
    for length in (0, 32, 100, 200):
        message, nonce = rng.randbytes(length), rng.randbytes(24)
        ours, theirs, seed_bytes = rng.randbytes(32), rng.randbytes(32), rng.randbytes(32)
        public = bindings.crypto_scalarmult_base(theirs)
        sign_public, secret = bindings.crypto_sign_seed_keypair(seed_bytes)
        signature = bindings.crypto_sign(message, secret)[:64]
        text = message.hex() or "-"
        yield f"scalarmult_base {theirs.hex()} {public.hex()}"
        yield f"beforenm {public.hex()} {ours.hex()} {bindings.crypto_box_beforenm(public, ours).hex()}"
        box = bindings.crypto_box(message, nonce, public, ours)
        yield f"box {text} {nonce.hex()} {public.hex()} {ours.hex()} {box.hex()}"
        yield f"box_open {box.hex()} {nonce.hex()} {public.hex()} {ours.hex()} {text}"
        yield f"sign {seed_bytes.hex()} {text} {(sign_public + signature).hex()}"
        yield f"verify {signature.hex()} {text} {sign_public.hex()} {text}"
        wrong = bytes([signature[0] ^ 1]) + signature[1:]
        yield f"verify {wrong.hex()} {text} {sign_public.hex()} refused"


def lines(source: str) -> list[str]:
    """Return the vectors of a source by its name."""
    return {
        "published": lambda: PUBLISHED.read_text().splitlines(),
        "wycheproof-x25519": lambda: list(wycheproof_x25519()),
        "wycheproof-ed25519": lambda: list(wycheproof_ed25519()),
        "pynacl": lambda: list(from_pynacl()),
    }[source]()


SOURCES = ("published", "pynacl", "wycheproof-x25519", "wycheproof-ed25519")
