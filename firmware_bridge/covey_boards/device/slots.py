"""Choose the firmware that a board starts. docs/protocol/boards.md, section 18, "Firmware". `main.py` unloads it.

1. Next to the flashed firmware in the board's own folder there are two slots, folders. The file `slot.cbor` says which
   of these three is good, and which is on trial (`slot_state.py`); without it the flashed one is good.
2. The one on trial starts `STARTS` times at most, each counted before it begins; then the good one does. It is good
   once the board has had its collector's sealed acknowledgement.

Updates never replace this file, nor what it loads: it has to be right for every later firmware.
"""

import sys

try:
    from . import slot_state
    from .storage import Files
except ImportError:
    import slot_state
    from storage import Files


def choose(storage):
    """Return the slot that starts now (rule 2)."""
    good, trial, starts, good_id, trial_id, failed_id = slot_state.read(storage)
    if not trial:
        return good
    if starts >= slot_state.STARTS:
        slot_state.fall_back(storage)
        return good
    slot_state.write(storage, [good, trial, starts + 1, good_id, trial_id, failed_id])
    return trial


def start():
    """Have modules come from the slot that starts."""
    try:
        slot = choose(Files())
    except Exception:  # the flash is full, or broken: what was flashed says so
        slot = ""
    if slot:
        sys.path.insert(0, slot)
    for name in ("slots", "slot_state", "storage", "cbor"):
        sys.modules.pop(name, None)
