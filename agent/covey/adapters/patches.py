"""Patches between two versions of a file: zstandard's frames with the earlier version as their dictionary.

What `zstd --patch-from` writes and reads. Both versions are in memory, in the process of the command that asks, so they
are bounded.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING

from covey.errors import MissingPackageError, PatchError
from covey.limits.content import PATCHED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zstandard import ZstdCompressionDict

_LEVEL = 19
_LOOK_S = 0.2
_WINDOW_LOG = 26
"""2 to this power bytes are looked back at: both versions."""


def can_patch() -> bool:
    """Say whether zstandard is installed."""
    return find_spec("zstandard") is not None


def make_patch(base: bytes, new: bytes, waits: Callable[[float], None] = lambda _: None) -> bytes:
    """Return what makes `new` of `base`; `waits` hears now and then for how many seconds it has been made.

    That takes a minute for 32 MiB, so it runs in a thread of its own, and what `waits` raises ends it with the process:
    Ctrl-C, say.

    Raises:
        MissingPackageError: zstandard is not installed.
    """
    if not can_patch():
        raise MissingPackageError("a patch", "zstandard")
    import zstandard

    assert max(len(base), len(new)) <= PATCHED_BYTES
    parameters = zstandard.ZstdCompressionParameters.from_level(_LEVEL, window_log=_WINDOW_LOG, enable_ldm=True)
    made: Future[bytes] = Future()

    def make() -> None:
        try:
            made.set_result(
                zstandard.ZstdCompressor(compression_params=parameters, dict_data=_dictionary(base)).compress(new)
            )
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            made.set_exception(error)

    begun = time.monotonic()
    threading.Thread(target=make, name="patch", daemon=True).start()
    while True:
        try:
            return made.result(_LOOK_S)
        except TimeoutError:
            waits(time.monotonic() - begun)


def apply_patch(base: bytes, patch: bytes, size: int) -> bytes:
    """Return the `size` bytes that a patch makes of `base`.

    Raises:
        PatchError: it makes something else.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(base), max_window_size=1 << _WINDOW_LOG)
    made = bytearray()
    try:
        for piece in decompressor.read_to_iter(patch):
            made += piece
            if len(made) > size:
                break
    except (zstandard.ZstdError, MemoryError) as error:
        raise PatchError("the patch does not fit the file that it names") from error
    if len(made) != size:
        raise PatchError("the patch makes a file of another size")
    return bytes(made)


def _dictionary(base: bytes) -> ZstdCompressionDict:
    import zstandard

    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
