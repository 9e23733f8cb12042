"""Board firmware as one file that operators sign. docs/protocol/boards.md, section 18, "Firmware".

An image is the encoding of `[signature, signer, header, contents]`, followed by the others' `[[signature, signer],
...]` if several operators have signed. `header` is that of `[1, version, architecture, version of .mpy, bytes of heap,
size of the list, digest of the list]`. `contents` are the list, an encoding of `[name, size, digest]` for each file,
then the files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError
from covey.limits.board import (
    MAXIMUM_BOARD_IMAGE_BYTES,
    MAXIMUM_BOARD_LIST_BYTES,
    MAXIMUM_BOARD_MESSAGE_BYTES,
    MAXIMUM_BOARD_OPERATORS,
)
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
    signers: tuple[DeviceKey, ...]


def write_image(files: dict[str, bytes], architecture: str, heap_bytes: int, operator: Identity) -> bytes:
    """Return a firmware as an image, signed by an operator."""
    kept = {name: content for name, content in sorted(files.items()) if name not in STAYS}
    listed = b"".join(cbor.encode([name, len(content), _digest(content)]) for name, content in kept.items())
    mpy = MPY_VERSION if any(name.endswith(".mpy") for name in kept) else 0
    header = cbor.encode([1, SOFTWARE, architecture, mpy, heap_bytes, len(listed), _digest(listed)])
    return cbor.encode([*_signed(header, operator), header, listed + b"".join(kept.values())])


def _digest(content: bytes) -> bytes:
    return bytes(digest(content[at : at + _PIECE] for at in range(0, len(content), _PIECE)))


def _signed(header: bytes, operator: Identity) -> list[object]:
    return [crypto.sign(_DOMAIN, header, operator), operator.signing_public]


def sign_image(raw: bytes, operator: Identity) -> bytes:
    """Return an image with one more operator's signature; as it was if that has signed it already.

    Raises:
        LimitError: as many have signed it as a board looks at.
        RemoteError: it is no image, or not signed.
    """
    image = read_image(raw)
    if operator.signing_public in image.signers:
        return raw
    if len(image.signers) == MAXIMUM_BOARD_OPERATORS:
        raise LimitError("the board firmware has too many signatures")
    fields = _decoded(raw)
    others = [*(fields[4] if len(fields) > 4 else []), _signed(fields[2], operator)]
    return cbor.encode([*fields[:4], others])


def _decoded(raw: bytes) -> list[Any]:
    fields = cbor.decode(raw, MAXIMUM_BOARD_IMAGE_BYTES)
    others = (
        (cbor.many(_signature, MAXIMUM_BOARD_OPERATORS - 1),) if isinstance(fields, list) and len(fields) > 4 else ()
    )
    return cbor.record(
        fields,
        "a board's firmware",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.octets_to(MAXIMUM_BOARD_MESSAGE_BYTES),
        cbor.octets_to(MAXIMUM_BOARD_IMAGE_BYTES),
        *others,
    )


def _signature(value: object) -> Any:
    return cbor.record(value, "a signature", cbor.octets(crypto.SIGNATURE_BYTES), cbor.octets(KEY_BYTES))


def read_image(raw: bytes) -> BoardImage:
    """Read an image, and verify the signatures of its named signers.

    Raises:
        RemoteError: malformed, beyond a bound, or not signed.
    """
    signature, signer, header, contents, *others = _decoded(raw)
    signed = [(signature, signer), *(others[0] if others else [])]
    for each, author in signed:
        crypto.verify(_DOMAIN, header, each, DeviceKey(author))
    signers = tuple(DeviceKey(author) for _, author in signed)
    if len(set(signers)) != len(signers):
        raise MalformedError("the board firmware names a signer twice")
    kind, version, architecture, _, _, list_bytes, list_digest = cbor.record(
        cbor.decode(header, MAXIMUM_BOARD_MESSAGE_BYTES),
        "a firmware's header",
        cbor.uint(2),
        cbor.text(MAXIMUM_LABEL_BYTES),
        cbor.text(MAXIMUM_LABEL_BYTES),
        cbor.uint(255),
        cbor.uint(),
        cbor.uint(MAXIMUM_BOARD_LIST_BYTES),
        cbor.octets(KEY_BYTES),
    )
    if kind != 1:
        raise MalformedError("not board firmware of a known kind")
    if list_bytes > len(contents) or _digest(contents[:list_bytes]) != list_digest:
        raise MalformedError("the board firmware's file list is malformed")
    announced = cbor.encode([signature, signer, header, *others])
    return BoardImage(version, architecture, announced, contents, hashlib.sha512(header).digest()[:32], signers)
