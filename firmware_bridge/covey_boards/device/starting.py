"""Assemble a board's firmware, as its settings and its heap permit. Loaded once, then unloaded."""

import gc
import sys
from binascii import crc32

import core
import link_machine
from micropython import const

SENSORS = [["counter", {}], ["memory", {}]]
_BATCH_BYTES_MIN = const(320)
_OUTBOX_BYTES_MIN = const(800)
_WORKING_BYTES = const(7_500)  # what the board itself takes, and signing and sealing beside
_FRAME_BYTES = const(128)  # of a small heap: a frame is made in one piece, out of pieces
_LINK_KEYS_FREE = const(24_000)
_WHOLE_FREE = const(12_000)  # its code and the one of alarms, and what `_WORKING_BYTES` counts


def load_identity(files):
    """Return the board's identity; the code that draws and reads it is unloaded."""
    return _once("identity").load_identity(files)


def _once(name):
    module = __import__(name)
    del sys.modules[name]
    return module


def _rules(texts, wrong):
    """Return the rules for series as `series_rules.read_rules` does, and none where one is no rule."""
    try:
        if texts:
            return _once("series_rules").read_rules(texts)
    except ValueError as error:
        wrong.append(str(error))
    return [], []


def start(files, settings, wrong, clock):
    """Return the board, ready to be turned; it says what is wrong with it.

    Args:
        files: as `core.Core` takes them.
        settings: of `covey.json`, checked.
        wrong: lines for people, of what came before.
        clock: of the board.
    """
    gc.collect()
    free = gc.mem_free()
    gc.threshold(free // 16)  # before the heap is full: what stays then lies together
    limits = core.Settings(
        interval_us=int(1_000_000 * settings.get("interval_seconds", 10)),
        batch_us=int(1_000_000 * settings.get("batch_seconds", 60)),
        report_us=int(1_000_000 * settings.get("report_seconds", 300)),
        batch_bytes=settings.get("batch_bytes", max(_BATCH_BYTES_MIN, free // 40)),
        outbox_bytes=settings.get("outbox_bytes", max(_OUTBOX_BYTES_MIN, (free - _WORKING_BYTES) // 5)),
        mtu=settings.get("mtu", 256),
        frame_bytes=link_machine.MTU_MAX if free >= _LINK_KEYS_FREE else _FRAME_BYTES,
        samples=settings.get("samples"),
        link_keys=settings.get("link_keys", free >= _LINK_KEYS_FREE),
        window_bytes=free // 16 if free >= _LINK_KEYS_FREE else 0,
    )
    rules, keeps = _rules(settings.get("series"), wrong)  # before what stays, or it would leave a hole
    known = _once("standing").known(files)
    state = _once("slot_state")
    on_trial = state.read(files)[2]
    identity = load_identity(files)
    gc.collect()
    opened, failed = _once("wiring").open_sensors(settings.get("sensors", SENSORS))
    board = core.Core(identity, files, opened, limits)
    board.counters["sensor_errors"] += len(failed)
    board.known = known if any(known) else []
    board.keeps = keeps
    if rules and "alarms" in sys.modules:
        board._sampling.alarms = sys.modules["alarms"].Alarms(rules, board.outbox, board.counters)
        board._sampling.alarms.mark = str(crc32(str(settings["series"]).encode())).encode()
    elif rules:
        wrong.append("series: too little heap for alarms")
    if [each for each in keeps if each[1] == 2]:  # of `series_rules.KEEPS`
        gc.collect()
        if gc.mem_free() >= _WHOLE_FREE:
            board._whole = __import__("whole").Whole(keeps, board)
        else:
            wrong.append("series: too little heap to keep any whole")
    if on_trial:
        board.trial = state.Trial(files, int(1_000_000 * settings.get("trial_seconds", 600)))
    if settings.get("sleep"):
        failed += _once("power").start(files, settings, board, clock)
    wrong += failed
    if wrong:
        board.reporting.lasting = ", ".join(wrong)[:160]
    settings.clear()  # the caller still refers to it, so this frees the heap
    return board
