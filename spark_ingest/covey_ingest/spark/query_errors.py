"""What Spark says of a query that has failed, as an error of ours; and which of them another try mends."""

from __future__ import annotations

from covey.errors import TransientError

PAUSES_S = (1.0, 5.0, 20.0, 60.0)
"""Before each further try where Python came too late."""

_LATE_WORKER = "Python worker failed to connect back"
"""What Spark says of a Python process that takes longer to start than 10 s; no setting of Spark's gives it more."""


class LateWorkerError(TransientError):
    """Python was not there in time, as on a busy machine."""


def stopped(cause: Exception) -> TransientError:
    """Return the error for a query that ended by `cause`."""
    kind = LateWorkerError if _LATE_WORKER in str(cause) else TransientError
    return kind(f"the query stopped: {_first_cause(cause)}", hint="start it again: it goes on where it stopped")


def _first_cause(error: Exception) -> str:
    """Return the line of a Python worker's traceback that names our own error, or Spark's first line."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith("covey.errors.")]
    return ours[-1].partition(": ")[2] if ours else next(filter(None, lines), "no reason given")
