"""What a board does with a blob from its collector: new settings. Change it, like `sensors.py`, for other purposes.

covey message send --to soil-1 --text '{"interval_seconds": 60}'
"""

import json

try:
    from micropython import const
except ImportError:
    const = int

SETTINGS_FILE = "covey.json"
_CHANGEABLE = ("interval_seconds", "batch_seconds", "report_seconds")
_SECONDS_MAX = const(86_400)


def received(content, storage):
    """Process a blob from the collector. Runs once for each, and again after a power cut at the wrong moment.

    Returns:
        Settings that the board follows from now on; or True for a restart.

    Raises:
        ValueError: the content is unknown; nothing changes.
    """
    changes = json.loads(content.decode())
    if not isinstance(changes, dict):
        raise ValueError("not a JSON object")
    for name, value in changes.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name not in _CHANGEABLE or not number or not 0.1 <= value <= _SECONDS_MAX:
            raise ValueError(name)
    settings = json.loads((storage.read(SETTINGS_FILE) or b"{}").decode())
    settings.update(changes)
    storage.write(SETTINGS_FILE, json.dumps(settings).encode())
    return changes
