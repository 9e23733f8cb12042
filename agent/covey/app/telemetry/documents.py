"""The documents of sensors and published readings for programs, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Age, Count, Says
from covey.core.telemetry.names import NO_READING_YET
from covey.limits.sensors import SENSOR_SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class SensorStatus:
    """A sensor that the configuration names, as the agent last knew it."""

    name: str
    state: Annotated[str, Says(description="`up`, `starting`, `no reading yet`, or the reason why it does not measure")]
    seconds: Annotated[Count, Says(description="seconds in this state")]
    last_reading_seconds: Annotated[
        Age | None, Says(description="seconds since its last stored reading; null: never, or unknown")
    ]
    dropped: Annotated[
        dict[str, Count], Says(description="readings dropped or given another time, by reason, in total")
    ]

    @property
    def up(self) -> bool:
        """Whether it measures, and all that it should."""
        return self.state == "up"

    @property
    def failing(self) -> bool:
        """Whether something is to be mended."""
        return self.state not in {"up", "starting", NO_READING_YET}

    @property
    def is_silent(self) -> bool:
        """Whether it has been open for so long without a reading that somebody should look."""
        return self.state == NO_READING_YET and self.seconds >= SENSOR_SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class QueuedReadings:
    """So many readings are queued."""

    queued_readings: Count
