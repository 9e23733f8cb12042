"""Open the sensors that a board's settings name. Loaded once, then unloaded."""

try:
    from covey_boards.shared import messages

    from .sensors import SENSORS
except ImportError:
    import messages
    from sensors import SENSORS


def open_sensors(wanted):
    """Return the sensors of a list of [kind, {argument: value}] that can be opened, and why others cannot, as lines.

    Of two that would give readings of one name, the first alone is opened, and keeps the name where it cannot be opened:
    the values of two sensors must not become one series.
    """
    opened, failed, names = [], [], []
    for entry in wanted:
        try:
            kind, arguments = entry
            found = _kind(kind)
            default = "board:" + kind if kind in SENSORS else getattr(found, "NAME", None)
            name = arguments.get("name", default)
            if name is not None:
                for other in names:
                    if (name + "/").startswith(other + "/") or (other + "/").startswith(name + "/"):
                        raise ValueError("another sensor is named " + other)
                names.append(name)
            opened.append(found(**arguments))
        except MemoryError:
            raise
        except Exception as error:  # no such kind or argument, not on this board, or not connected
            failed.append(messages.trouble(entry, error))
    return opened, failed


def _kind(name):
    """Return a sensor's class. What is not wanted is not loaded: names alone cost a board kilobytes."""
    if name in SENSORS:
        return SENSORS[name]
    try:
        from my_sensors import SENSORS as own
    except ImportError:
        own = {}
    if name in own:
        return own[name]
    try:
        return __import__("driver_" + name).SENSORS[name]
    except ImportError:
        pass  # it is not a chip's
    from hardware import SENSORS as built_in

    return built_in[name]
