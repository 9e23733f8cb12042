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
    state: Annotated[
        str, Says(description="`up`: it measures; `starting`; `no reading yet`; or why it does not measure, or not all")
    ]
    seconds: Annotated[Count, Says(description="since when")]
    last_reading_seconds: Annotated[
        Age | None, Says(description="since readings of it were committed last; null: never, as far as is known")
    ]
    dropped: Annotated[
        dict[str, Count], Says(description="readings that were left out, or got another time, by reason; since ever")
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
