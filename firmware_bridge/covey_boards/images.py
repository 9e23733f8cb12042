"""Firmware as one file that an operator signs: what boards are updated by. docs/protocol.md, section 18, "Firmware".

An image is the encoding of `[signature, signer, header, contents]`, `header` that of
`[1, version, architecture, version of .mpy, bytes of heap, [[name, size, digest], ...]]`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.limits.board import MAXIMUM_BOARD_FILES, MAXIMUM_BOARD_IMAGE_BYTES, MAXIMUM_BOARD_MESSAGE_BYTES
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey_boards.compiling import MPY_VERSION, STAYS
from covey_boards.device.updating import digest
from covey_boards.shared.messages import SOFTWARE

_DOMAIN = b"covey/1 board firmware"
_PIECE = 512

ARCHITECTURES = (
    "armv6m",
    "armv7m",
    "armv7em",
    "armv7emsp",
    "armv7emdp",
    "xtensa",
    "xtensawin",
    "rv32imc",
    "x86",
    "x64",
)
"""As `mpy-cross -march=` calls the processors that it writes native code for."""


@dataclass(frozen=True, slots=True)
class BoardImage:
    """A firmware: `announced` is what a board is told first, `digest` how it is known."""

    version: str
    architecture: str
    announced: bytes = field(repr=False)
    contents: bytes = field(repr=False)
    digest: bytes


def write_image(files: dict[str, bytes], architecture: str, heap_bytes: int, operator: Identity) -> bytes:
    """Return a firmware as an image, signed by an operator."""
    kept = {name: content for name, content in sorted(files.items()) if name not in STAYS}
    listed = [
        [name, len(content), digest(content[at : at + _PIECE] for at in range(0, len(content), _PIECE))]
        for name, content in kept.items()
    ]
    mpy = MPY_VERSION if any(name.endswith(".mpy") for name in kept) else 0
    header = cbor.encode([1, SOFTWARE, architecture, mpy, heap_bytes, listed])
    signature = crypto.sign(_DOMAIN, header, operator)
    return cbor.encode([signature, operator.signing_public, header, b"".join(kept.values())])


def read_image(raw: bytes) -> BoardImage:
    """Read an image, and verify that its signer has signed it.

    Raises:
        RemoteError: malformed, beyond a bound, or not signed.
    """
    signature, signer, header, contents = cbor.record(
        cbor.decode(raw, MAXIMUM_BOARD_IMAGE_BYTES),
        "a board's firmware",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.octets_to(MAXIMUM_BOARD_MESSAGE_BYTES),
        cbor.octets_to(MAXIMUM_BOARD_IMAGE_BYTES),
    )
    crypto.verify(_DOMAIN, header, signature, DeviceKey(signer))
    version, architecture = cbor.record(
        cbor.decode(header, MAXIMUM_BOARD_MESSAGE_BYTES),
        "a firmware's header",
        cbor.uint(1),
        cbor.text(MAXIMUM_LABEL_BYTES),
        cbor.text(MAXIMUM_LABEL_BYTES),
        cbor.uint(255),
        cbor.uint(),
        cbor.many(_listed, MAXIMUM_BOARD_FILES),
    )[1:3]
    announced = cbor.encode([signature, signer, header])
    return BoardImage(version, architecture, announced, contents, hashlib.sha512(header).digest()[:32])


def _listed(value: object) -> object:
    return cbor.record(value, "a file", cbor.text(64), cbor.uint(MAXIMUM_BOARD_IMAGE_BYTES), cbor.octets(32))
