"""When a board reads its sensors, and its readings.

1. Samples missed during a long computation are not made up for.
2. Sensors with a `prepare()` begin a second before all are read.
3. A failing sensor stops no other, whether it raises or gives an invalid reading.
4. Each reading is judged once, before it waits for a batch (`alarms.py`).
"""

try:
    from micropython import const
except ImportError:
    const = int

_PREPARE_US = const(1_000_000)  # a DS18B20 takes 750 ms, the others less


class Sampling:
    """The sensors, and what was read of them that is in no batch yet.

    Args:
        sensors: as `core.Core` takes them.
        settings: a `core.Settings`, of which `interval_us` and `samples` count.
        failed: called with a name and an exception, or what else is wrong.
    """

    def __init__(self, sensors, settings, failed):
        self.readings = []
        self.alarms = None  # of `alarms`, if there are rules for any
        self.sensors, self._settings, self._failed = sensors, settings, failed
        self._at_us = self._samples = self._lead_us = self._alarms_taken = 0

    def sample_now(self):
        """Start again with the interval of reading."""
        self._at_us = 0

    def sample(self, now_us):
        """Read the sensors when it is time, and the readings of before have gone."""
        if now_us < self._at_us or self.readings or self._samples == self._settings.samples:
            return
        slow = [sensor for sensor in self.sensors if hasattr(sensor, "prepare")]
        begins = slow and not self._lead_us
        if begins:
            self._lead_us = _PREPARE_US
            self._at_us = now_us + _PREPARE_US
        else:
            self._samples += 1
            self._at_us += self._settings.interval_us - self._lead_us
            self._lead_us = 0
            if self._at_us <= now_us:
                self._at_us = now_us + self._settings.interval_us
        for sensor in slow if begins else self.sensors:
            try:
                if begins:
                    sensor.prepare()
                else:
                    self._take(sensor.read(), now_us)
            except MemoryError:
                raise
            except Exception as error:
                self._failed(type(sensor).__name__, error)

    def _take(self, readings, now_us):
        taken = []
        for reading in readings:
            reading = tuple(reading) + (now_us,)
            if self.alarms is not None and self.alarms.take(*reading):
                self._alarms_taken += 1
            else:
                taken.append(reading)
        self.readings += taken

    def fill(self, batch):
        """Move readings into a batch, or into several by a `whole.Whole`, as far as it takes them; return how many it took."""
        taken, self._alarms_taken = self._alarms_taken, 0
        while self.readings:
            try:
                if not batch.add(*self.readings[0]):
                    break
                taken += 1
            except MemoryError:
                raise
            except Exception as error:
                self._failed(self.readings[0][0], error)
            self.readings.pop(0)
        return taken
