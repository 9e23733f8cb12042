"""Which faults a seed meets, and how hard. Some seeds are calm, a few meet everything at once."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from tests.sim.agenda import MINUTE, SECOND


@dataclass(frozen=True, slots=True)
class Plan:
    """Shares are of one event; `..._every_us` is the mean pause between faults of a kind, 0 for never."""

    faults_us: int
    latency_us: int
    queue_most: int
    drops_oldest: bool
    queue_expires_us: int
    lose: float
    duplicate: float
    reorder: float
    receive_maximum: int
    publish_window: int
    payload_most: int
    cut_every_us: int
    half_open: float
    wipe_every_us: int
    deafen_every_us: int
    snapshot_every_us: int
    crash: float
    disk_full_every_us: int
    clock_jump_every_us: int
    vault_refuses: float
    vault_lies: float
    attack_every_us: int
    outbox_bytes: int
    submissions: int
    turn_us: int
    burst: bool
    joiner: bool
    restore_every_us: int
    unnoticed: bool
    second_relay: bool


def draw(source: random.Random) -> Plan:
    """Draw a seed's faults."""

    def share(most: float, often: float = 0.5) -> float:
        return source.uniform(0, most) if source.random() < often else 0.0

    def pause(least_us: int, most_us: int, often: float = 0.4) -> int:
        return source.randint(least_us, most_us) if source.random() < often else 0

    def spread(least: int, most: int) -> int:
        return round(least * math.pow(most / least, source.random() ** 3))  # most worlds are small: more of them fit

    joiner = source.random() < 0.15
    relived = not joiner and source.random() < 0.05  # a copy that does not know of its other life: rare, and deep
    return Plan(
        faults_us=spread(90 if relived else 30, 240) * SECOND,
        latency_us=source.choice((5_000, 50_000, 400_000)),
        queue_most=source.choice((3, 20, 1_000)),
        drops_oldest=source.random() < 0.5,
        queue_expires_us=source.choice((5 * SECOND, 60 * SECOND, 60 * MINUTE)),
        lose=share(0.4),
        duplicate=share(0.3),
        reorder=share(0.5),
        receive_maximum=source.choice((1, 5, 100)),
        publish_window=source.choice((1, 4, 200)),
        payload_most=1_700 if source.random() < 0.1 else 1_200_000,
        cut_every_us=pause(5 * SECOND, 60 * SECOND, 0.6),
        half_open=source.choice((0.0, 0.3, 1.0)),
        wipe_every_us=pause(20 * SECOND, 120 * SECOND),
        deafen_every_us=pause(20 * SECOND, 120 * SECOND),
        snapshot_every_us=pause(20 * SECOND, 120 * SECOND),
        crash=share(0.06),
        disk_full_every_us=pause(10 * SECOND, 60 * SECOND, 0.6),
        clock_jump_every_us=0 if joiner else pause(10 * SECOND, 90 * SECOND),  # its invite would expire, rightly
        vault_refuses=share(0.5),
        vault_lies=share(0.3),
        attack_every_us=pause(1 * SECOND, 20 * SECOND),
        outbox_bytes=source.choice((2_000, 6_000, 10_000_000, 10_000_000)),
        submissions=spread(5 if relived else 1, 12),
        turn_us=source.choice((2_000, 100_000, 500_000)),
        burst=source.random() < 0.3,
        joiner=joiner,
        restore_every_us=0 if joiner else pause(8 * SECOND, 40 * SECOND, 1.0 if relived else 0.25),
        unnoticed=relived or source.random() < 0.5,
        second_relay=source.random() < 0.2,
    )
