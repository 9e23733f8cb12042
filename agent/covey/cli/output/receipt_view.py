"""What a receipt proves, for people. All texts in it are the device's, so they are made safe for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.wording import reading_name
from covey.core.ids import printable

if TYPE_CHECKING:
    from covey.app.telemetry.receipts import ReadingProof


def print_proof(proof: ReadingProof) -> None:
    """Print the reading, who signed it, and who called the device what."""
    values = (proof.value, proof.flag, proof.text, proof.data)
    value = next(str(each) for each in values if each is not None)
    print(f"  reading   {reading_name(proof.name)}  {printable(value)} {printable(proof.unit)}".rstrip())
    print(f"  time      {proof.time} by the device's clock ({proof.time_quality})")
    print(f"  device    {proof.key}")
    print(f"  place     reading {proof.index + 1} of {proof.readings} in its message; boot {proof.boot}")
    if proof.group is None:
        print("  group     not in the receipt")
    else:
        label = printable(proof.label or "") or "no label"
        issuer = (proof.issuer or "")[:8]
        print(f"  group     {proof.group[:8]} version {proof.version}, signed by {issuer}, lists it ({label})")
