"""A kind of sensor from another package: how much of the moon is lit, from the length of a month alone."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from covey.config.sensors import SensorKind
from covey.config.tables import option
from covey.core.telemetry.reading import Reading
from covey.ports import Measurement, SensorOpening

_NEW_MOON_S = 947_182_440  # 2000-01-06 18:14 UTC
_MONTH_S = 29.530588 * 86_400


@dataclass(frozen=True, slots=True)
class Settings:
    """How much of the moon is lit."""

    unit: str = option("%", "unit of what is read", "/", choices=("%", "/"))


class Moon:
    """Made for each `[[sensor]]` with `kind = "moon"`, in a thread of its own; it may block there."""

    def __init__(self, opening: SensorOpening) -> None:
        """Take the settings, which are checked."""
        self._unit: str = opening.options.unit

    def read(self) -> Measurement:
        """Return what is measured now; the agent puts the sensor's name before it, and the time to it."""
        share = (1 - math.cos(2 * math.pi * (time.time() - _NEW_MOON_S) / _MONTH_S)) / 2
        return Measurement([Reading("lit", self._unit, None, share * 100 if self._unit == "%" else share)])

    def close(self) -> None:
        """Let go of what is held: nothing."""


KIND = SensorKind(Settings, Moon, reading="SENSOR`/lit`", unit="`%` or `/`", time="when it was read")
