"""A board's state that survives deep sleep: everything in RAM that its gateway or collector relies on.

1. It is stored once and read once, so no sequence and no counter of a link key is ever used twice.
2. A link key is stored only in the clock's memory, which ends with the power: flash would keep it for any reader.
3. The line continues if nothing was in flight; otherwise it begins again, as after a restart, and repeats that.
4. The time asleep is the clock's if that is near the requested time, else the requested time.
5. Sensors are opened again; one whose attribute `kept` is an integer gets it back.
"""

import struct

try:
    from covey_boards.shared import batch, cbor, link_machine
    from covey_boards.shared.framing import crc32

    from .outbox import Entry
except ImportError:
    import batch
    import cbor
    import link_machine
    from framing import crc32
    from outbox import Entry

_BYTES_MAX = 16_384


def encoded(board, sleeping, now_us, wait_us, with_keys):
    """Return a board's state, before a sleep of so long."""
    entries = board.outbox.entries

    def place(entry):
        return entries.index(entry) + 1 if entry in entries else 0

    box, link, links, losses, sampling = board.outbox, board.link, board._links, board._losses, board._sampling
    is_still = link.state == link_machine.UP and not link.queued_bytes() and not link._fragments and not link._held
    alarms, whole = sampling.alarms, board._whole
    fields = [
        [1, now_us, sleeping._power.now_us(), wait_us, sleeping.flash_us, sleeping._alone],
        [board._incarnation, board._boot_id, board._time and board._time[:2], sorted(board.counters.items())],
        [box.next_seq, box.next_number, box._records, box._records_passed, box._lost, box._entrusted]
        + [box._missing_since_us, box._top, box._retry_us, box._retry_at_us, box.repeated, box.dropped, place(box._loss)]
        + [box.thinned, box._thinned],
        [[each.link_seq, each.message, each.is_telemetry, each.sent, each.times, each.taken_us, each.keep, each.thinned] for each in entries],
        [link.boot_id, link._peer, link._send_sequence, link._receive_sequence, link._peer_mtu, link._peer_window]
        + [link._peer_message_bytes_max, link._version, link._next_number]
        if is_still
        else None,
        [links._used, links._next, place(links.entry), links.wanted] if links is not None and with_keys else None,
        losses and [losses.offset, place(losses.entry)],
        [sampling._at_us, sampling._samples, [getattr(each, "kept", None) for each in sampling.sensors]],
        [board.reporting._report_at_us, board.reporting._known],
        [_series_of(kept) for kept in board._batch._series],
        alarms and [_judged(alarms), [[kind, [_series_of(kept) for kept in each._series]] for kind, each in alarms.waiting]],
        board.thinner and [_fields_of(run) for run in board.thinner.runs],
        whole and [whole.refused, [_series_of(kept) for kept in whole.batch._series]],
    ]
    raw = cbor.encode(fields)
    return crc32(raw).to_bytes(4, "little") + raw


def _fields_of(run):
    return [run.clock, run.width, run.numbers, run.seqs, run.anchor, run.series]


def _judged(alarms):
    """Return [name, unit, whether it is in alarm, and marked, seconds of its alarms, last value as text] of each."""
    return [
        [name, unit, active, marked, times, None if last is None else str(last)]
        for (name, unit), (_, active, marked, last, times) in alarms.judged.items()
    ]


def _series_of(kept):
    """Return [name, unit, scale or None, times, values] of a series: each time as the difference to the one before."""
    name, unit, kind, scale, count, times, values = kept
    gaps = [times[place] - (times[place - 1] if place else 0) for place in range(count)]
    if kind == 0:
        return [name, unit, scale, gaps, [values[place] for place in range(count)]]
    return [name, unit, None, gaps, [struct.pack("<d", values[place]) for place in range(count)]]


def restore(board, sleeping, raw, clock_us, clock):
    """Have a board that has just been made go on where the one went to sleep that was `encoded`.

    What cannot be read is forgotten: the board begins as after a restart.
    """
    if crc32(raw[4:]).to_bytes(4, "little") != raw[:4]:
        return
    head, own, box, entries, link, keys, losses, sampling, reported, series, alarms, runs, whole = cbor.decode(
        raw[4:], _BYTES_MAX
    )
    _, now_us, at_us, wait_us, sleeping.flash_us, sleeping._alone = head
    slept_us = clock_us - at_us
    if not 0 <= slept_us <= wait_us + wait_us // 4 + 5_000_000:  # rule 4
        slept_us = wait_us
    clock._now += now_us + slept_us
    board._incarnation, board._boot_id, time, counters = own
    board._time = time and (time[0], time[1], False)
    board.counters.update(dict([tuple(each) for each in counters]))
    _restore_outbox(board.outbox, box, entries)
    at = [None] + board.outbox.entries
    if losses is not None:
        _restore_losses(board, losses, at)
    if link is not None:
        _restore_link(board.link, link)
        board.reporting._report_at_us, board.reporting._known = reported
    if keys is not None and board._links is not None:
        board._links._used, board._links._next, entry, board._links.wanted = keys
        board._links.entry = at[entry]
    board._sampling._at_us, board._sampling._samples, kept = sampling
    for sensor, number in zip(board._sampling.sensors, kept):
        if number is not None and hasattr(sensor, "kept"):
            sensor.kept = number
    _restore_batch(board._batch, series)
    if whole is not None:
        refused, series = whole
        _restore_batch(board._batch if board._whole is None else board._whole.batch, series)
        if board._whole is not None:
            board._whole.refused = refused
    if alarms is not None and board._sampling.alarms is not None:
        _restore_alarms(board._sampling.alarms, *alarms)
    if runs:
        _restore_runs(board, runs)
    sleeping._since_us, sleeping._stale = None, board._time
    if link is None:
        sleeping._patience_us = 3_000_000
    if slept_us < wait_us - wait_us // 20 - 20_000:
        sleeping.woken_early()


def _restore_outbox(box, fields, entries):
    box.next_seq, box.next_number, box._records, box._records_passed, lost, entrusted = fields[:6]
    box._missing_since_us, box._top, box._retry_us, box._retry_at_us, box.repeated, box.dropped, loss = fields[6:13]
    box.thinned, thinned = fields[13:]
    box._thinned = [tuple(span) for span in thinned]
    box._lost, box._entrusted = [tuple(span) for span in lost], [tuple(span) for span in entrusted]
    for link_seq, message, is_telemetry, sent, times, taken_us, keep, thinned in entries:
        entry = Entry(link_seq, message, is_telemetry, keep)
        entry.sent, entry.times, entry.taken_us = sent, times, taken_us
        entry.thinned = [tuple(span) for span in thinned]
        box.entries.append(entry)
        box.size += len(message)
    box._loss = ([None] + box.entries)[loss]


def _restore_losses(board, fields, at):
    """A note of this incarnation is no earlier one's."""
    if board._losses is None:
        board._load_losses()
    losses = board._losses
    own = [note for note in losses._notes if note[0] == board._incarnation]
    losses._notes = [note for note in losses._notes if note[0] != board._incarnation]
    losses._incarnation, losses._noted = board._incarnation, own[0][1:] if own else None
    losses.offset, losses.entry = fields[0], at[fields[1]]


def _restore_link(link, fields):
    link.boot_id = fields[0]
    link._new_session(fields[1])
    link._send_sequence, link._receive_sequence, link._peer_mtu, link._peer_window = fields[2:6]
    link._peer_message_bytes_max, link._version, link._next_number = fields[6:]
    link.state, link._fresh = link_machine.UP, False


def _restore_batch(kept, series):
    for name, unit, scale, gaps, values in series:
        time_us = 0
        for gap, value in zip(gaps, values):
            time_us += gap
            kept.add(name, unit, scale, struct.unpack("<d", value)[0] if scale is None else value, time_us)


def _restore_alarms(alarms, judged, waiting):
    """Rules may be others now: what none names is forgotten."""
    for name, unit, active, marked, times, last in judged:
        series = alarms.series(name, unit)
        if series is not None:
            last = None if last is None else int(last) if last.lstrip("-").isdigit() else float(last)
            series[1:] = [active, marked, last, times]
    for kind, series in waiting:
        kept = batch.Batch()
        _restore_batch(kept, series)
        alarms.waiting.append([kind, kept])


def _restore_runs(board, runs):
    try:
        from . import thinning
    except ImportError:
        import thinning
    board.thinner = thinning.of(board)
    for clock, width, numbers, seqs, anchor, series in runs:
        run = thinning.Run(clock, width)
        run.numbers, run.seqs = [tuple(span) for span in numbers], [tuple(span) for span in seqs]
        run.anchor = tuple(anchor)
        run.series = [tuple(each[:4]) + ([tuple(window) for window in each[4]],) for each in series]
        board.thinner.runs.append(run)
