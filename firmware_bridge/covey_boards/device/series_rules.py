"""The rules for series in `covey.json`, as the agent's `telemetry.series` has them. Loaded once, then unloaded.

    "series": ["freezer/* alarm > -15 hysteresis 2", "door/open alarm change > 0 keep whole", "cpu/* keep newest"]

1. A rule is a pattern of names, then `alarm > N`, `alarm < N` (perhaps `hysteresis N`) or `alarm change > N`, then
   `keep whole`, `keep thin` or `keep newest`; at least one of the two.
2. Of the rules whose pattern matches a name, the first with `alarm` says which readings are alarms, and the first with
   `keep` what is kept of them.
3. Limits are counted in billionths, so that decimals are compared exactly.
"""

from binascii import crc32

try:
    from micropython import const
except ImportError:
    const = int

_RULES_MAX = const(16)
_RULE_BYTES_MAX = const(256)
_PLACES = const(9)
KEEPS = "thin", "newest", "whole"
_WHOLE = const(2)


def read_rules(texts):
    """Return (alarms, keeps): (pattern, condition, limit, hysteresis) of each rule with an alarm, and (pattern, keep) of
    each that says what is kept. A condition is ">", "<" or "change"; `keep` is a place in `KEEPS`.

    Raises:
        ValueError: one is no rule, or there are too many.
    """
    if not isinstance(texts, list) or len(texts) > _RULES_MAX:
        raise ValueError("series: a list of at most %d rules" % _RULES_MAX)
    alarms, keeps = [], []
    for text in texts:
        try:
            pattern, alarm, keep = _read_rule(text)
        except (AttributeError, IndexError, ValueError):
            raise ValueError("series: what of %s?" % str(text)[:60])
        if alarm is not None:
            alarms.append((pattern,) + alarm)
        if keep is not None:
            keeps.append((pattern, keep))
    return alarms, keeps


def _read_rule(text):
    if len(text.encode()) > _RULE_BYTES_MAX:
        raise ValueError
    pattern = text.split()[0]
    words = text.strip()[len(pattern) :].replace(">", " > ").replace("<", " < ").split()
    alarm = keep = None
    if words[0] == "alarm":
        condition, words = words[1], words[2:]
        if condition == "change":
            if words.pop(0) != ">":
                raise ValueError
        elif condition not in (">", "<"):
            raise ValueError
        limit, hysteresis = _number(words.pop(0)), 0
        if words[:1] == ["hysteresis"]:
            hysteresis, words = _number(words[1]), words[2:]
            if condition == "change" or hysteresis < 0:
                raise ValueError
        if condition == "change" and limit < 0:
            raise ValueError
        alarm = condition, limit, hysteresis
    if words:
        if words[0] != "keep" or len(words) != 2:
            raise ValueError
        keep = KEEPS.index(words[1])
    return pattern, alarm, keep


def _number(text):
    """Return a decimal number's billionths."""
    unsigned = text[1:] if text[0] in "+-" else text
    mantissa, e, exponent = unsigned.lower().partition("e")
    whole, _, places = mantissa.partition(".")
    shift = _PLACES - len(places) + (int(exponent) if e else 0)
    if not (whole + places).isdigit() or not -40 <= shift <= 40:
        raise ValueError
    number = int(whole + places)
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return -number if text[0] == "-" else number


def follow(board, texts):
    """Have a board follow rules from now on; alarms that wait stay.

    Raises:
        ValueError: as `read_rules`; the rules of before continue.
        MemoryError: the heap is full; the rules of before continue.
    """
    rules, keeps = read_rules(texts)
    alarms, whole = board._sampling.alarms, board._whole
    if whole is None and [each for each in keeps if each[1] == _WHOLE]:
        try:
            from .whole import Whole
        except ImportError:
            from whole import Whole
        whole = Whole(keeps, board)
    if alarms is None and rules:
        try:
            from .alarms import Alarms
        except ImportError:
            from alarms import Alarms
        board._sampling.alarms = Alarms(rules, board.outbox, board.counters)
    elif alarms is not None and rules != alarms.rules:
        alarms.rules, alarms.judged = rules, {}
    if whole is not None:
        whole.keeps = keeps
    board._whole = whole
    if board.thinner is not None:
        board.thinner.follow(keeps)
    if board._sampling.alarms is not None:
        board._sampling.alarms.mark = str(crc32(str(texts).encode())).encode()
    board.keeps = keeps
