"""DHT22 (AM2302) and DHT11: temperature and humidity, with the `dht` of MicroPython's ports."""


class Dht:
    """`{"pin": 15, "name": "air", "model": 22}`. It measures every two seconds at most; a reading takes 25 ms."""

    NAME = "air"

    def __init__(self, pin, name=NAME, model=22):
        import dht
        from machine import Pin

        self._name = name
        self._chip = {22: dht.DHT22, 11: dht.DHT11}[model](Pin(pin))

    def read(self):
        """Return tenths of a degree and of a per cent."""
        self._chip.measure()
        return [
            (self._name + "/temperature", "Cel", 1, round(10 * self._chip.temperature())),
            (self._name + "/humidity", "%RH", 1, round(10 * self._chip.humidity())),
        ]


SENSORS = {"dht": Dht}
