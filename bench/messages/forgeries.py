"""Try to forge receipts, on the product and on the verifier that was written from the protocol's pages alone.

Prints how many of so many forgeries prove what the device has not signed, and what receipts cost:
`python -m bench.messages.forgeries [COUNT [SEED]]`.
"""

from __future__ import annotations

import random
import sys
import time

from covey.core.crypto import Identity
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.telemetry.decoding import read_batch
from covey.core.vault.receipts import sign_rows, verify_receipt, write_receipt
from tests.receipt_forgeries import Forger

_ROUND = 10_000
_TIMES = 20


def main() -> None:
    """Print the numbers; exit with 1 if a forgery was accepted."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for readings in (1, 13, 100, 1_000, 16_000):
        _cost(readings)
    tried = harmless = 0
    accepted: list[bytes] = []
    while tried < count:
        tally = Forger(seed).run(min(_ROUND, count - tried))
        tried, harmless, seed = tried + tally.tried, harmless + tally.harmless, seed + 1
        accepted += tally.accepted
        print(f"\r{tried:,} forgeries, {len(accepted)} accepted", end="", flush=True)
    print(f"; {harmless:,} said what the device has signed, in other bytes")
    for raw in accepted[:5]:
        print(raw.hex())
    sys.exit(bool(accepted))


def _cost(readings: int) -> None:
    identity = Identity.from_seeds(bytes(32), bytes(32))
    builder, rng = BatchBuilder(), random.Random(1)
    for place in range(readings):
        builder.add(f"sensor-{place % 13}", "Cel", 1_000_000 * place, 20 + rng.randrange(100) / 10)
    batch = builder.body(ClockReading(bytes(8), 10**12, 1_800_000_000_000_000, ClockKind.SYNCHRONISED))
    rows = sign_rows(identity, batch, bytes(16))
    receipt = write_receipt(identity.signing_public, read_batch(batch), rows, readings // 2)
    began = time.perf_counter()
    for _ in range(_TIMES):
        sign_rows(identity, batch, bytes(16))
    signed = time.perf_counter()
    for _ in range(_TIMES):
        verify_receipt(receipt, identity.signing_public)
    verified = time.perf_counter()
    plain, provable = len(numbered(1, batch)), len(numbered(1, batch, None, rows))
    print(
        f"{readings:6,} readings: body {plain:,} bytes, {provable:,} with receipts; signed in "
        f"{(signed - began) / _TIMES * 1e3:.2f} ms; a receipt has {len(receipt):,} bytes, "
        f"verified in {(verified - signed) / _TIMES * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
