"""How soon a queue is empty once the network is back, after 15, 60 and 600 seconds without it.

The production core and store, in virtual time, a message a second, through the relay of `outage`:

    both cut off    nobody has a connection;
    recipient       the recipient alone has none, and the relay forgets what it kept for it;
    flapping        the same, and the sender's own line comes and goes every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.messages.outage import Pair

_WARM_S = 60
_OUTAGES_S = (15, 60, 600)
_ROUNDS = 3
_FLAP_S = 7
_PATIENCE_S = 900


def _cut(pair: Pair, seconds: int) -> None:
    for each in pair.both:
        each.disconnect()
    pair.live(seconds, sends=True)
    for each in pair.both:
        each.connect()


def _recipient_cut(pair: Pair, seconds: int) -> None:
    pair.recipient.disconnect()
    pair.live(seconds, sends=True)
    pair.recipient.queue.clear()  # and the relay forgets it
    pair.recipient.connect()


def _flap(pair: Pair, seconds: int) -> None:
    """Let the recipient be away, while the sender's own line comes and goes."""
    pair.recipient.disconnect()
    for _ in range(0, seconds, _FLAP_S):
        pair.sender.disconnect()
        pair.live(1, sends=True)
        pair.sender.connect()
        pair.live(_FLAP_S - 1, sends=True)
    pair.sender.disconnect()
    pair.recipient.queue.clear()
    pair.recipient.connect()
    pair.sender.connect()


_FAILURES: dict[str, Callable[[Pair, int], None]] = {
    "both cut off": _cut,
    "recipient cut off": _recipient_cut,
    "flapping": _flap,
}


def _drained(seed: int, failure: Callable[[Pair, int], None], outage_s: int) -> int:
    """Return the seconds until the queue is empty."""
    with TemporaryDirectory() as folder:
        pair = Pair(seed, Path(folder))
        try:
            pair.live(_WARM_S, sends=True)
            failure(pair, outage_s)
            for second in range(_PATIENCE_S):
                if not pair.waiting:
                    return second
                pair.live(1, sends=False)
        finally:
            pair.close()
    raise RuntimeError("the queue does not drain")


def main() -> None:
    """Print the figures."""
    print(f"seconds from the network's return to an empty queue, medians of {_ROUNDS} (least to most)")
    for name, failure in _FAILURES.items():
        for outage_s in _OUTAGES_S:
            rounds = sorted(_drained(seed, failure, outage_s) for seed in range(_ROUNDS))
            print(
                f"{name:<20} after {outage_s:>4} s {median(rounds):>6,.0f}  ({rounds[0]} to {rounds[-1]})", flush=True
            )


if __name__ == "__main__":
    main()
