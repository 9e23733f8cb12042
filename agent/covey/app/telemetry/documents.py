"""What sensors and published readings are to programs, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Count, Says


@dataclass(frozen=True, slots=True)
class SensorStatus:
    """A sensor that the configuration names, as the agent last knew it."""

    name: str
    state: Annotated[str, Says(description="`up`, `starting`, or why it does not measure, or not all")]
    seconds: Annotated[Count, Says(description="since when")]

    @property
    def up(self) -> bool:
        """Whether it measures, and all that it should."""
        return self.state == "up"

    @property
    def failing(self) -> bool:
        """Whether something is to be mended."""
        return self.state not in {"up", "starting"}


@dataclass(frozen=True, slots=True)
class QueuedReadings:
    """So many readings are queued."""

    queued_readings: Count
