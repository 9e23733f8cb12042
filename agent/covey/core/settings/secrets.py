"""Values of settings that only some devices can read (docs/protocol/history.md, "Settings", *Secret values*).

They are sealed as in `orders/sealing.py`, and open only in their context: that group, author, setting and selector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from covey.core.crypto import NoiseKeys
from covey.core.history.orders import Scalar, read_scalar
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.orders.sealing import open_sealed, seal
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.errors import LocalError, SettingError
from covey.limits.orders import MAXIMUM_SECRET_BYTES


@dataclass(frozen=True, slots=True)
class SealedValue:
    """What an order has in place of a value, and what that is bound to: group, author, key and selector."""

    content: bytes = field(repr=False)
    binding: bytes = field(repr=False)

    @classmethod
    def of(cls, content: bytes, group_id: GroupId, author: DeviceKey, key: str, selector: Selector) -> SealedValue:
        """Return it as it is in an order."""
        return cls(content, _binding(group_id, author, key, selector))

    def open(self, keys: NoiseKeys) -> Scalar:
        """Return the value.

        Raises:
            DecryptionError: it is not for these keys, or was given as something else.
            RemoteError: malformed, or beyond a bound.
        """
        return read_scalar(cbor.decode(open_sealed(self.content, self.binding, keys), MAXIMUM_SECRET_BYTES))


def seal_value(
    value: Scalar,
    recipients: Collection[NoisePublic],
    group_id: GroupId,
    author: DeviceKey,
    key: str,
    selector: Selector,
    rng: Callable[[int], bytes],
) -> bytes:
    """Return an order's sealed value, which only these recipients can read.

    Raises:
        SettingError: the value is too long, or there are no recipients.
    """
    try:
        return seal(cbor.encode(value), recipients, _binding(group_id, author, key, selector), rng)
    except LocalError as error:
        raise SettingError(str(error), "setting_value") from error


def _binding(group_id: GroupId, author: DeviceKey, key: str, selector: Selector) -> bytes:
    return cbor.encode(["covey/1 secret", group_id, author, key, selector.to_wire()])
