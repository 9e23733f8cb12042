"""A cluster that serves a query no more: stages of it wait, and none of their tasks runs.

Spark waits for executors without end, also where none can come: a master of the standalone mode that has forgotten an
application, as one without a disk has when it starts again, ends its executors, and the driver is told of nothing.
Whoever is started again is registered anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covey.errors import TransientError
from covey.limits.tables import UNSERVED_S_MAX

if TYPE_CHECKING:
    from pyspark import SparkContext


class Stages:
    """Those of a session: `look` often, and then `waited_too_long` says whether they did, once."""

    def __init__(self, context: SparkContext) -> None:
        self.waited_too_long = False
        self._tracker = context.statusTracker()
        self._served_at = time.monotonic()

    def look(self) -> None:
        """Note whether a task runs where there are stages."""
        now = time.monotonic()
        stages = [self._tracker.getStageInfo(number) for number in self._tracker.getActiveStageIds()]
        if not stages or any(stage is not None and stage.numActiveTasks for stage in stages):
            self._served_at = now
        elif now - self._served_at > UNSERVED_S_MAX:
            self.waited_too_long = True


def unserved() -> TransientError:
    """Return the error for a query whose stages are not served."""
    return TransientError(
        f"no executor has taken a task of the query's for {UNSERVED_S_MAX / 60:.0f} minutes",
        hint="has the cluster workers with room for it, and does its master know it? start it again: it goes on where "
        "it stopped",
    )
