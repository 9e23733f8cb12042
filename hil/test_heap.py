"""What fits: the whole of the cryptography, loaded from `.mpy` files, in a hard heap.

The unix port puts native code outside its heap, a microcontroller inside it unless it is frozen into flash:
`bench/boards/crypto_instructions.py` measures both on a Cortex-M0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hil.conftest import cross_compile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hil.boards.drivers import Driver

HEAP_KIB = 24
EVERYTHING = """
import tweetnacl as nacl
message, nonce = bytes(256), bytes(24)
ours, our_secret = nacl.crypto_box_keypair()
theirs, their_secret = nacl.crypto_box_keypair()
for _ in range(3):
    box = nacl.crypto_box(message, nonce, theirs, our_secret)
    assert nacl.crypto_box_open(box, nonce, ours, their_secret) == message
    public, secret = nacl.crypto_sign_keypair()
    assert nacl.crypto_sign_open(nacl.crypto_sign(message, secret), public) == message
import gc
gc.collect()
print(nacl.implementation, gc.mem_alloc())
"""


PROGRAM = "import sys\nsys.path.append('.')\nimport everything\n"


def test_all_cryptography_within_24_kib(
    board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    if not board.heap_limit or not board.architecture:
        pytest.skip(f"{board.name} has no heap limit to set, or cannot hold files")
    source = tmp_path / "everything.py"
    source.write_text(EVERYTHING)  # compiled like the rest, or the compiler's own need would be measured
    files = {**artefacts(board.architecture), "everything.mpy": cross_compile("", source)}
    printed = board.run(PROGRAM, files, heap_kib=HEAP_KIB)
    assert printed.split()[0] == "viper", printed


LOADED = """
import gc, sys
import ports, core, losses, opening, starting, identity, sensors
for once in ("opening", "starting", "identity"):
    del sys.modules[once]
opening = starting = identity = None
gc.collect()
print(gc.mem_free())
"""


def test_the_firmware_leaves_10_of_64_kib_free(
    board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    """All that a board may have loaded in an outage: what it measures, signs and sends has to fit beside."""
    if not board.heap_limit or not board.architecture:
        pytest.skip(f"{board.name} has no heap limit to set, or cannot hold files")
    source = tmp_path / "loaded.py"
    source.write_text(LOADED)
    files = {**artefacts(board.architecture), "loaded.mpy": cross_compile("", source)}
    printed = board.run("import sys\nsys.path.append('.')\nimport loaded\n", files, heap_kib=64)
    assert int(printed) >= 10 * 1024, printed
