"""Which faults a seed meets, and how hard. Some seeds are calm, a few meet everything at once."""

from __future__ import annotations

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
    burst: bool
    joiner: bool
    restore_every_us: int
    unnoticed: bool


def draw(source: random.Random) -> Plan:
    """Draw a seed's faults."""

    def share(most: float, often: float = 0.5) -> float:
        return source.uniform(0, most) if source.random() < often else 0.0

    def pause(least_us: int, most_us: int, often: float = 0.4) -> int:
        return source.randint(least_us, most_us) if source.random() < often else 0

    joiner = source.random() < 0.15
    return Plan(
        faults_us=source.randint(20, 240) * SECOND,
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
        attack_every_us=pause(1 * SECOND, 10 * SECOND),
        outbox_bytes=source.choice((2_000, 6_000, 10_000_000, 10_000_000)),
        submissions=source.randint(3, 12),
        burst=source.random() < 0.3,
        joiner=joiner,
        restore_every_us=0 if joiner else pause(15 * SECOND, 90 * SECOND, 0.25),
        unnoticed=source.random() < 0.5,
    )
