"""What a person is told who names a relay without TLS beyond the own networks."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from covey.app.relays.relay_settings import exposes_password
from covey.core.ids import printable


def warn_of_exposure(urls: Iterable[str]) -> None:
    """Say of each relay's URL that it has the password cross foreign networks in the clear, if it has."""
    for url in urls:
        if exposes_password(url):
            print(
                f"warning: {printable(url)} is not on this machine or a private network, and has no TLS: anyone on "
                "the path can read the password and see which devices communicate; use mqtts://",
                file=sys.stderr,
            )
