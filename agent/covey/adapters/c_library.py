"""What Python's standard library does not offer of the C library.

PyNaCl has loaded cffi, while ctypes would cost an idle agent 0.4 MiB more. The tables below are no machine's own: they
are what `cffi.FFI.emit_python_code` makes ("out-of-line, ABI level" in cffi's documentation) of this declaration, whose
`rest` is far more than any machine's `struct timex` still has:

    struct timex { unsigned int modes; long offset, freq, maxerror, esterror; int status; char rest[512]; };
    int adjtimex(struct timex *);
    int malloc_trim(size_t);
"""

from __future__ import annotations

from contextlib import suppress

import _cffi_backend

_STATE_ERROR = 5  # TIME_ERROR of <sys/timex.h>
_STATUS_UNSYNCHRONISED = 0x40  # STA_UNSYNC

_C = _cffi_backend.FFI(
    "covey.adapters.c_library",
    _version=0x2601,
    _types=b"\x00\x00\x09\x0d\x00\x00\x1c\x01\x00\x00\x00\x0f\x00\x00\x09\x0d\x00\x00\x0b\x03\x00\x00\x00\x0f\x00\x00"
    b"\x02\x01\x00\x00\x06\x05\x00\x00\x02\x00\x00\x00\x07\x01\x00\x00\x09\x01\x00\x00\x00\x09\x00\x00\x08\x01",
    _globals=(b"\x00\x00\x03\x23adjtimex", 0, b"\x00\x00\x00\x23malloc_trim", 0),
    _struct_unions=(
        (
            *(b"\x00\x00\x00\x0b\x00\x00\x00\x02timex", b"\x00\x00\x0c\x11modes", b"\x00\x00\x0a\x11offset"),
            *(b"\x00\x00\x0a\x11freq", b"\x00\x00\x0a\x11maxerror", b"\x00\x00\x0a\x11esterror"),
            *(b"\x00\x00\x09\x11status", b"\x00\x00\x07\x11rest"),
        ),
    ),
)
_LIBRARY = _C.dlopen(None)


def clock_is_synchronised() -> bool | None:
    """Ask the kernel whether a time daemon has the clock in hand; None where it may not be asked (seccomp)."""
    timex = _C.new("struct timex *")  # zeros: `modes` 0 only reads
    try:
        state = _LIBRARY.adjtimex(timex)
    except AttributeError:  # another C library
        return None
    if state < 0:
        return None
    return bool(state != _STATE_ERROR and not timex.status & _STATUS_UNSYNCHRONISED)


def return_freed_memory() -> None:
    """Give the kernel back what this process has freed; glibc else keeps it."""
    with suppress(AttributeError):  # another C library
        _LIBRARY.malloc_trim(0)
