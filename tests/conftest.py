"""What holds for all tests."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in a shell's background, where Ctrl-C is ignored, and so it would be by every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
