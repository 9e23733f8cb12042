"""Dispatch orders and firmware from the gateway. Loaded when one arrives."""

try:
    from covey_boards.shared import line_orders

    from .orders import obey
    from .updating import Update
except ImportError:
    import line_orders

    obey = Update = None

import sys


def take(board, storage, settings, clock, raw, now_us):
    """Deal with one message.

    Args:
        board, storage, settings: `core.Core` and what it has; `update` of it is the firmware that comes.
        clock: (microseconds since 1970 as far as the board knows, whether that can be believed).
        raw: of the line.

    Raises:
        WireError: it is none.
    """
    kind, *fields = line_orders.from_line(raw)
    if kind == line_orders.ORDER:
        result = (obey or _once("orders").obey)(board, storage, settings, clock, fields[0], now_us)
        board.reporting.say(line_orders.RESULT, *result)
    elif kind in (line_orders.FIRMWARE, line_orders.PART):
        _update(board, storage, fields, now_us)


def _update(board, storage, fields, now_us):
    if len(fields) == 1:
        board.update = None
        board.update = (Update or _once("updating").Update)(storage, fields[0])
    elif board.update is not None:
        board.update.take(*fields)
    update = board.update
    if update is not None:
        board.reporting.say(line_orders.PROGRESS, update.id, update.state, update.offset, update.why)
        if update.installed:
            board.restart(now_us)
        board.update = None if update.state else update


def _once(name):
    """Load a module, and unload it, and its imports, once nothing of it is used."""
    try:
        return __import__(name)
    finally:
        for each in (name, "slot_state", "setting_orders"):
            sys.modules.pop(each, None)
