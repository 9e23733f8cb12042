"""Apply an operator's setting without a restart. Loaded for each setting, then unloaded.

1. Operators set `board.sensors` and `board.series` (JSON as in `covey.json`) and how often a board measures and sends,
   nothing else.
2. Their values are in a file of their own above `covey.json`, so that without them the owner's value holds again.
3. If sensors cannot be opened, or rules not be read, they are refused, and the previous ones continue.
4. If nothing measures, the setting takes effect at the next start.
"""

import json
import sys

try:
    from .opening import is_right, read_settings
    from .wiring import open_sensors
except ImportError:
    from opening import is_right, read_settings
    from wiring import open_sensors

ORDERED_FILE = "ordered.json"
_SECONDS = ("interval_seconds", "batch_seconds", "report_seconds")


def let_hold(board, storage, settings, key, value):
    """Let a value of a key hold; None: what holds without operators. Return (code, why) where it does not, else None.

    Args:
        board, storage, settings: `core.Core` and what it has; no settings where nothing measures.
    """
    name = key[6:] if key[:6] == "board." else ""
    if name not in ("sensors", "series") and name not in _SECONDS:
        return "setting_unknown", "a board has board.sensors, board.series and board.%s" % ", board.".join(_SECONDS)
    ordered = json.loads((storage.read(ORDERED_FILE) or b"{}").decode())
    ordered.pop(name, None)
    if value is not None:
        try:
            ordered[name] = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            ordered[name] = None
        if not is_right(name, ordered[name]):
            return "setting_value", "no value of it"
    raw = json.dumps(ordered).encode()
    held, _ = read_settings(storage, raw)
    sensors = None
    if name == "sensors":
        sensors, failed = open_sensors(held["sensors"]) if "sensors" in held else (None, ["covey.json names none"])
        if failed:
            return "setting_value", ", ".join(failed)
    if name == "series":
        try:
            rules = _series_rules()
            rules.read_rules(held.get("series", []))
        except ValueError as error:
            return "setting_value", str(error)
    storage.write(ORDERED_FILE, raw)
    if settings is None:
        return None
    if name == "series":
        rules.follow(board, held.get("series", []))
    if name in _SECONDS:
        unit = name[:-8] + "_us"
        default = getattr(type(settings)(), unit)
        setattr(settings, unit, int(1_000_000 * held[name]) if name in held else default)
    if sensors is not None:
        board._sampling.sensors = sensors
    board._sampling.sample_now()
    return None


def _series_rules():
    """Return the module, which no other setting needs."""
    try:
        from . import series_rules
    except ImportError:
        import series_rules

        sys.modules.pop("series_rules", None)
    return series_rules
