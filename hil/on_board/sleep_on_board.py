"""What a board's `machine` has for its sleep, for ports that have none of it; it runs before the firmware.

A deep sleep ends the process, as it ends all that a board's RAM holds; the clock's memory is a file beside its flash.
"""

import sys
import time

from storage import Files

MEMORY, BYTES_MAX = "clock.memory", 2_048
files = Files("../")


class RTC:
    """A clock whose memory outlasts a deep sleep, and no power cut."""

    def memory(self, data=None):
        """Return what it holds, or have it hold something else."""
        if data is None:
            return files.read(MEMORY) or b""
        if len(data) > BYTES_MAX:
            raise ValueError("buffer too long")
        files.write(MEMORY, data)
        return None


class Machine:
    """The module."""

    RTC = RTC

    def lightsleep(self, milliseconds):
        """Sleep, and go on."""
        time.sleep_ms(milliseconds)

    def deepsleep(self, milliseconds):
        """Sleep, and start anew."""
        time.sleep_ms(milliseconds)
        sys.exit(7)

    def reset(self):
        """Start anew."""
        sys.exit(0)


sys.modules["machine"] = Machine()
