"""The targets of an order: all devices, a label, a capability, or devices by key.

On the wire `[0]`, `[1, label]`, `[2, capability]` or `[3, [key, ...]]`, keys ascending and distinct. Label and
capability are those of the current manifest when a device judges the order. A board obeys only orders that name it by
its key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from covey.core.group.manifest import Member
from covey.core.ids import KEY_BYTES, DeviceKey, device_name, fingerprint, key_text
from covey.core.wire import cbor
from covey.errors import MalformedError, UsageError
from covey.limits.group import MAXIMUM_CAPABILITY_BYTES, MAXIMUM_LABEL_BYTES
from covey.limits.orders import MAXIMUM_SELECTED_DEVICES


class SelectorKind(IntEnum):
    """By what devices are selected."""

    ALL = 0
    LABEL = 1
    CAPABILITY = 2
    DEVICES = 3


@dataclass(frozen=True, slots=True)
class Selector:
    """The targets of an order: `name` is the label or the capability, `devices` are signing keys, ascending."""

    kind: SelectorKind
    name: str = ""
    devices: tuple[DeviceKey, ...] = ()

    def selects(self, member: Member) -> bool:
        """Say whether an order is for a member of the group that it is given in."""
        if member.is_board and self.kind is not SelectorKind.DEVICES:
            return False
        if self.kind is SelectorKind.LABEL:
            return member.label == self.name
        if self.kind is SelectorKind.CAPABILITY:
            return self.name in member.capabilities
        return self.kind is SelectorKind.ALL or self._names(member.keys.signing_public)

    def _names(self, device: DeviceKey) -> bool:
        place = bisect_left(self.devices, device)
        return place < len(self.devices) and self.devices[place] == device

    def to_wire(self) -> list[object]:
        """Return the selector's array."""
        if self.kind is SelectorKind.ALL:
            return [int(self.kind)]
        return [int(self.kind), list(self.devices) if self.kind is SelectorKind.DEVICES else self.name]

    @classmethod
    def from_wire(cls, value: object) -> Selector:
        """Parse a selector.

        Raises:
            RemoteError: malformed, of an unknown kind, or beyond a bound.
        """
        number = value[0] if isinstance(value, list) and value else None
        if type(number) is not int or not (number == SelectorKind.ALL or number in _READERS):
            raise MalformedError("unknown kind of selector")
        if number == SelectorKind.ALL:
            cbor.record(value, "selector", cbor.uint(255))
            return EVERYBODY
        _, selected = cbor.record(value, "selector", cbor.uint(255), _READERS[number])
        if number != SelectorKind.DEVICES:
            if not selected:
                raise MalformedError("the selector has no name")
            return cls(SelectorKind(number), name=selected)
        if not selected or list(selected) != sorted(set(selected)):
            raise MalformedError("selected devices must ascend and be distinct, at least one")
        return cls(SelectorKind.DEVICES, devices=selected)

    def in_tables(self) -> str:
        """Return it as tables have it: devices by their whole keys."""
        return self.read_as(lambda key: key.hex(), ",") if self.kind is SelectorKind.DEVICES else str(self)

    def __str__(self) -> str:
        """Return it as a person writes it; devices by their names."""
        return self.read_as(device_name, ",")

    def read_as(self, named: Callable[[DeviceKey], str], between: str = ", ") -> str:
        """Return it as a person reads it, who calls devices something."""
        if self.kind is SelectorKind.ALL:
            return "all"
        if self.kind is SelectorKind.DEVICES:
            return between.join(map(named, self.devices))
        return f"{self.kind.name.lower()}:{self.name}"


EVERYBODY = Selector(SelectorKind.ALL)

_READERS: dict[int, cbor.Read[object]] = {
    SelectorKind.LABEL: cbor.text(MAXIMUM_LABEL_BYTES),
    SelectorKind.CAPABILITY: cbor.text(MAXIMUM_CAPABILITY_BYTES),
    SelectorKind.DEVICES: cbor.many_octets(KEY_BYTES, MAXIMUM_SELECTED_DEVICES),
}


def read_selector(text: str, members: Iterable[Member]) -> Selector:
    """Return what a person writes as a selector: `all`, `label:NAME`, `capability:NAME`, or devices between commas.

    A device is written as its name, its fingerprint or its key, as a text or in hexadecimal digits; or as its label,
    where nothing is called so and no other device has it; of a board and a device with one label that means the board.

    Raises:
        UsageError: it is none, or nobody is selected by it.
    """
    listed = list(members)
    present = [member for member in listed if not member.is_board]
    kind, colon, name = text.partition(":")
    if text == "all":
        return EVERYBODY
    if colon and kind in {"label", "capability"}:
        selector = Selector(SelectorKind[kind.upper()], name=name)
        if not any(map(selector.selects, present)):
            raise UsageError(f"no device of the group has the {kind} '{name[:64]}'", hint=_MEMBERS)
        return selector
    keys = {_device(each.strip(), listed) for each in text.split(",")}
    return Selector(SelectorKind.DEVICES, devices=tuple(sorted(keys)))


def _device(text: str, members: Iterable[Member]) -> DeviceKey:
    listed = [(member, member.keys.signing_public) for member in members] if text else []
    found = [key for _, key in listed if text in {device_name(key), key.hex(), fingerprint(key), key_text("sign", key)}]
    found = found or [key for member, key in listed if member.is_board and member.label == text]
    found = list(dict.fromkeys(found or [key for member, key in listed if member.label == text]))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"'{text[:70]}' is not a device of the group", hint=_MEMBERS)
    raise UsageError(
        f"several devices are called '{text[:70]}'",
        hint=f"give one device's fingerprint; or all of them: label:{text[:64]}",
    )


_MEMBERS = "give all, label:NAME, capability:NAME, or names from 'covey group members'"
