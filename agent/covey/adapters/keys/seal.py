"""What a seal of a key is: a module of its own for each, in the table of `seals.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from covey.core.crypto import Secret

PassphraseReader = Callable[[], bytearray]
"""Returns a passphrase or PIN, which its caller wipes."""

LOST_HINT = (
    "put the disk back into the machine that sealed the key; if that is impossible, make a new hub with "
    "'covey hub adopt' from its recovery file, or invite any other device again"
)
"""What helps where a seal does not open: a copy of the files alone never does."""


@dataclass(frozen=True, slots=True)
class KeySeal:
    """One way to keep a key.

    `problem` returns why it cannot be used here, or nothing. `draw` returns a new key and the blob that opens it; its
    first argument is the token's module. `open` returns a blob's key. Both may ask for a PIN, which they wipe.
    `about` says for people what a blob is bound to.

    `draw` and `open` raise TransientError where the machine does not open it now, so that a service tries again, and
    ConfigurationError where trying again would not help.
    """

    problem: Callable[[], str]
    draw: Callable[[Path | None, PassphraseReader], tuple[Secret, bytes]]
    open: Callable[[bytes, PassphraseReader], Secret]
    about: Callable[[bytes], str]
    protects: Callable[[], bool]
    """Whether it works here, opens without a person, and does not open for a card without its machine."""
