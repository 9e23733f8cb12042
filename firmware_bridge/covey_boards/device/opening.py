"""A board's first steps, whatever else may fail: read `covey.json`, open the line, and give the prompt on request.

Loaded once, then unloaded. An invalid part of `covey.json` counts as missing, and is named for a person.
"""

import json
from binascii import crc32

try:
    from micropython import const
except ImportError:
    const = int

_WAIT_MS = const(10)
_WATCHDOG_MS = const(8_000)  # the longest that an RP2040 takes; no computation of ours takes half of it
_MTU = const(256)
_DATAGRAM_MTU = const(1_024)


def is_right(name, value):
    """Say whether a value is one of a name in `covey.json`."""
    kinds = {"link_keys": bool, "watchdog": bool, "uart": dict, "udp": dict, "wake": dict, "sensors": list, "series": list}
    if name in kinds:
        return isinstance(value, kinds[name])
    if name == "sleep":
        return value in ("light", "deep")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if name in ("interval_seconds", "batch_seconds", "report_seconds", "trial_seconds", "rest_seconds"):
        return 0.001 <= value <= 86_400
    if name == "prompt_seconds":
        return 0 <= value <= 60
    whole = {"samples": (0, 1 << 29), "batch_bytes": (128, 2_560), "outbox_bytes": (256, 1 << 29), "mtu": (48, 4_096)}
    return name in whole and isinstance(value, int) and whole[name][0] <= value <= whole[name][1]


def read_settings(files, ordered=None):
    """Return (settings, what is wrong): a dictionary of what is right in `covey.json`, and a line for people or None.

    What operators set holds above that: `ordered`, or what is in the file of it.
    """
    try:
        raw = files.read("covey.json") or b"{}"
        settings = json.loads(raw.decode()) if _is_closed(raw) else None
    except ValueError:
        settings = None
    trouble = None if isinstance(settings, dict) else "covey.json is no JSON object"
    settings = settings if trouble is None else {}
    try:
        settings.update(json.loads((ordered or files.read("ordered.json") or b"{}").decode()))
    except (TypeError, ValueError):
        trouble = trouble or "ordered.json is no JSON object"
    wrong = []
    for name in sorted(settings):
        if settings[name] is not None and not is_right(name, settings[name]):
            wrong.append(name)
            settings[name] = None
    settings = {name: settings[name] for name in settings if settings[name] is not None}
    return settings, trouble or ("covey.json: what of %s?" % ", ".join(wrong) if wrong else None)


def _is_closed(raw):
    """Say whether JSON ends what it begins: before MicroPython 1.26 `json` takes half a file for a whole one."""
    opened, quoted, escaped = [], False, False
    for byte in raw:
        if quoted:
            quoted = escaped or byte != 0x22
            escaped = byte == 0x5C and not escaped
        elif byte == 0x22:
            quoted = True
        elif byte in (0x5B, 0x7B):
            opened.append(byte)
        elif byte in (0x5D, 0x7D) and (not opened or opened.pop() != byte - 2):
            return False
    return not opened and not quoted


def start(files, kind, clock):
    """Return (line, watchdog, settings, what is wrong); the line is None where the prompt is asked for.

    Args:
        files: with `covey.json`.
        kind: `ports.Console`, the line that the prompt is on.
        clock: of the board.
    """
    settings, trouble = read_settings(files)
    wrong = [trouble] if trouble else []
    rules = settings.get("series")
    if rules and files.read("ignored") == str(crc32(str(rules).encode())).encode():  # they have filled the heap before
        settings["series"] = [_without_alarm(str(each)) for each in rules if " alarm" not in str(each) or " keep " in str(each)]
        wrong.append("series: too little heap for alarms")
    mtu, line = settings.get("mtu", _MTU), None
    try:
        if settings.get("udp"):
            from udp import Udp

            settings["mtu"] = min(mtu, _DATAGRAM_MTU)
            line = Udp(**settings["udp"])
        elif settings.get("uart"):
            from uart import Uart

            line = Uart(mtu, **settings["uart"])
    except Exception as error:  # no such UART, pin, network or argument: the prompt's line is there in any case
        wrong.append("covey.json: %s: %s (%s)" % ("udp" if settings.get("udp") else "uart", type(error).__name__, error))
    if line is None:
        line = kind(mtu)
        if wants_prompt(line, clock, settings.get("prompt_seconds", 1.5)):
            line.interrupt_on(3)
            line = None
    watchdog = _watchdog() if line is not None and settings.get("watchdog", True) else None
    return line, watchdog, settings, wrong


def wants_prompt(line, clock, seconds):
    """Say whether somebody asks for the prompt by 0x03, five times in a row."""
    asked = b""
    while clock.now_us() < 1_000_000 * seconds:
        asked = (asked + line.read(_WAIT_MS))[-64:]
        if b"\x03\x03\x03\x03\x03" in asked:
            return True
    return False


def _without_alarm(rule):
    return rule if " alarm" not in rule else rule.split()[0] + rule[rule.index(" keep ") :]


def _watchdog():
    try:
        from machine import WDT

        return WDT(timeout=_WATCHDOG_MS)
    except (ImportError, ValueError):
        return None  # this port has none, or none for so long
