"""The warning for a relay without TLS outside the local networks."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from covey.app.relays.relay_settings import exposes_password
from covey.core.ids import printable


def warn_of_exposure(urls: Iterable[str]) -> None:
    """Warn of each relay whose URL makes the password cross foreign networks unencrypted."""
    for url in urls:
        if exposes_password(url):
            print(
                f"warning: {printable(url)} is not on this machine or a private network, and has no TLS: anyone on "
                "the path can read the password and see which devices communicate; use mqtts://",
                file=sys.stderr,
            )
