"""Arguments of a command that only its target devices can read (docs/protocol/history.md, "Commands", *Secret
arguments*).

1. They are sealed as in `orders/sealing.py`, all of one command together, and open only in their context: that group,
   author, action, once-id and selector.
2. They are opened when a device starts the command, and never stored; a repeated start opens them again.
3. A program's output is stored with each literal occurrence of a secret replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from covey.core.crypto import NoiseKeys
from covey.core.history.orders import arguments_from_wire
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.orders.sealing import open_sealed, seal
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_SECRET_BYTES

REDACTED = b"***"


@dataclass(frozen=True, slots=True)
class SealedArguments:
    """What a command has of them, and what that is bound to."""

    content: bytes = field(repr=False)
    binding: bytes = field(repr=False)

    @classmethod
    def of(
        cls, content: bytes, group_id: GroupId, author: DeviceKey, action: str, once: bytes, selector: Selector
    ) -> SealedArguments:
        """Return them as they stand in a command."""
        return cls(content, _binding(group_id, author, action, once, selector))

    def to_stored(self) -> bytes:
        """Return both as a device stores them, until it is done."""
        return cbor.encode([self.content, self.binding])

    @classmethod
    def from_stored(cls, stored: bytes) -> SealedArguments:
        """Read what `to_stored` wrote.

        Raises:
            RemoteError: it is damaged.
        """
        part = cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES)
        return cls(*cbor.record(cbor.decode(stored, 2 * MAXIMUM_OPERATION_BODY_BYTES), "sealed arguments", part, part))

    def open(self, keys: NoiseKeys) -> dict[str, str]:
        """Return the arguments, by their names.

        Raises:
            DecryptionError: they are not for these keys, or were given as something else.
            RemoteError: malformed, or beyond a bound.
        """
        return arguments_from_wire(cbor.decode(open_sealed(self.content, self.binding, keys), MAXIMUM_SECRET_BYTES))


def seal_arguments(
    arguments: Mapping[str, str],
    recipients: Collection[NoisePublic],
    group_id: GroupId,
    author: DeviceKey,
    action: str,
    once: bytes,
    selector: Selector,
    rng: Callable[[int], bytes],
) -> bytes:
    """Return a command's sealed arguments, readable only by these recipients.

    Raises:
        LocalError: they are too long together, or there are no recipients.
    """
    return seal(cbor.encode(dict(arguments)), recipients, _binding(group_id, author, action, once, selector), rng)


def _binding(group_id: GroupId, author: DeviceKey, action: str, once: bytes, selector: Selector) -> bytes:
    return cbor.encode(["covey/1 command", group_id, author, action, once, selector.to_wire()])


def redacted(output: bytes, secrets: Collection[str], *, cut: bool) -> bytes:
    """Return what a program wrote without these values, nor the beginning of one at the end of what was cut."""
    values = sorted({each.encode() for each in secrets if each}, key=len, reverse=True)
    if not values:
        return output
    found = re.sub(b"|".join(map(re.escape, values)), REDACTED, output)
    if not cut:
        return found
    tails = (length for each in values for length in range(1, len(each)) if found.endswith(each[:length]))
    return found[: len(found) - max(tails, default=0)]
