"""Common parts of the drivers for chips on an I2C bus: the bus, and Sensirion's words with their checksums.

A driver is a module `driver_KIND` whose `SENSORS` has the kind; it is loaded only if `covey.json` names the kind. One
whose chip needs time to measure has a `prepare()`; `core` calls it a second before `read()`.
"""

_buses = {}


def bus(sda=4, scl=5, id=0, frequency=100_000):
    """Return the bus on two pins: of the port's own with a number, with `id` None one that any two pins make."""
    key = id, sda, scl
    if key not in _buses:
        import machine

        pins = {"sda": machine.Pin(sda), "scl": machine.Pin(scl), "freq": frequency}
        _buses[key] = machine.SoftI2C(**pins) if id is None else machine.I2C(id, **pins)
    return _buses[key]


def crc8(raw):
    """Return the checksum of Sensirion's chips: polynomial 0x31, from 0xff (SHT3x datasheet, section 4.12)."""
    crc = 0xFF
    for byte in raw:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x31 if crc & 0x80 else crc << 1) & 0xFF
    return crc


def words(raw):
    """Return the 16-bit words of an answer: two bytes and their checksum each.

    Raises:
        ValueError: a checksum is not that of its word.
    """
    found = []
    for start in range(0, len(raw), 3):
        if crc8(raw[start : start + 2]) != raw[start + 2]:
            raise ValueError("checksum")
        found.append(raw[start] << 8 | raw[start + 1])
    return found


def climate(name, temperature, humidity, wet=100, dry=0):
    """Return readings of Sensirion's two words; humidity goes from `dry` to `wet` per cent, and is kept to 0 to 100."""
    hundredths = -4_500 + 17_500 * temperature // 65_535
    percent = min(10_000, max(0, 100 * dry + 100 * (wet - dry) * humidity // 65_535))
    return [(name + "/temperature", "Cel", 2, hundredths), (name + "/humidity", "%RH", 2, percent)]
