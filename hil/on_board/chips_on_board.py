"""Chips on buses, as a board's drivers find them: what their datasheets say of registers, commands and answers.

`install()` has `machine`, `dht`, `onewire` and `ds18x20` come from here, on CPython and on boards without any.
"""

import sys


def crc8(raw):
    """Return Sensirion's checksum, by long division of bits and not as the drivers do it."""
    bits = 0
    for byte in bytes([raw[0] ^ 0xFF]) + bytes(raw[1:]) + b"\0":
        bits = bits << 8 | byte
    for place in range(len(raw) * 8 + 7, 7, -1):
        if bits >> place & 1:
            bits ^= 0x131 << (place - 8)
    return bits


class Sensirion:
    """A chip that takes commands of two bytes, or one, and answers some of them with words."""

    def __init__(self, answers, refused=()):
        self.answers, self.refused, self.commands = answers, refused, []

    def write(self, raw):
        """Take a command."""
        if bytes(raw) in self.refused:
            raise OSError(5)
        self.commands.append(bytes(raw))

    def read(self, size):
        """Answer the last command."""
        raw = b""
        for word in self.answers[self.commands[-1]]:
            pair = bytes([word >> 8, word & 0xFF])
            raw += pair + bytes([crc8(pair)])
        assert len(raw) == size
        return raw


class Registers:
    """A chip with registers."""

    def __init__(self, content):
        self.content = content  # register: bytes from there
        self.written = []

    def read(self, register, size):
        """Return what stands in them."""
        for start, raw in self.content.items():
            if start <= register and register + size <= start + len(raw):
                return raw[register - start : register - start + size]
        raise OSError(5)

    def write(self, register, raw):
        """Take a byte."""
        self.written.append((register, bytes(raw)))


class Bus:
    """I2C: `chips` by address."""

    def __init__(self, chips):
        self._chips = chips

    def _chip(self, address):
        if address not in self._chips:
            raise OSError(19)
        return self._chips[address]

    def writeto(self, address, raw):
        """Write."""
        self._chip(address).write(raw)

    def readfrom(self, address, size):
        """Read."""
        return self._chip(address).read(size)

    def readfrom_mem(self, address, register, size):
        """Read registers."""
        return self._chip(address).read(register, size)

    def writeto_mem(self, address, register, raw):
        """Write registers."""
        self._chip(address).write(register, raw)


pins = {}  # those that were opened, by number
thermometers = {}  # on a 1-wire bus: pin to number to degrees


class Pin:
    """A pin whose level the test changes."""

    IN, PULL_UP, PULL_DOWN, IRQ_FALLING, IRQ_RISING = range(5)

    def __init__(self, number, *_):
        self.number = number
        self.handler = None
        pins[number] = self

    def irq(self, handler, _trigger):
        """Have the test call `handler`."""
        self.handler = handler


class Dht:
    """A DHT22 or DHT11 that measures what the pin's number says."""

    def __init__(self, pin):
        self._pin, self._measured = pin, False

    def measure(self):
        """Measure."""
        self._measured = True

    def temperature(self):
        """Return it."""
        assert self._measured
        return self._pin.number - 20.3

    def humidity(self):
        """Return it."""
        return 40.6


class OneWire:
    """A bus on a pin."""

    def __init__(self, pin):
        self.pin = pin


class Ds18x20:
    """The thermometers on it."""

    def __init__(self, wire):
        self._chips = thermometers.get(wire.pin.number, {})
        self._converted = {}

    def scan(self):
        """Return their numbers."""
        return [bytearray(rom) for rom in self._chips]

    def convert_temp(self):
        """Have them measure."""
        self._converted = dict(self._chips)

    def read_temp(self, rom):
        """Return what one measured; what it cannot raises."""
        return self._converted[bytes(rom)] + 0


class _Module:
    def __init__(self, **names):
        for name, value in names.items():
            setattr(self, name, value)


def install(chips):
    """Put the chips, by their address, and the modules where drivers look for them."""
    bus = Bus(chips)
    sys.modules["machine"] = _Module(Pin=Pin, I2C=lambda *_, **__: bus, SoftI2C=lambda *_, **__: bus)
    sys.modules["dht"] = _Module(DHT22=Dht, DHT11=Dht)
    sys.modules["onewire"] = _Module(OneWire=OneWire)
    sys.modules["ds18x20"] = _Module(DS18X20=Ds18x20)
