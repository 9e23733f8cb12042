"""A requested restart waits until the gateway has all readings. Loaded when one is requested."""

try:
    from micropython import const
except ImportError:
    const = int

FLUSH_US = const(3_000_000)  # a gateway that takes nothing for so long keeps no board from its restart


class Restarting:
    """What a restart waits for, since `now_us`."""

    def __init__(self, now_us):
        self._at_us = now_us + FLUSH_US

    def taken(self, now_us):
        """Wait on, as the gateway takes what it is sent."""
        self._at_us = now_us + FLUSH_US

    def due(self, board, now_us):
        """Say whether there is nothing that the gateway lacks, or it takes nothing any more."""
        if is_at_gateway(board):
            return True
        if now_us >= self._at_us and board._whole is not None:
            board._whole.end()
        return now_us >= self._at_us


def is_at_gateway(board):
    """Say whether all that a board has measured has been taken by the gateway."""
    waits = board._sampling.readings or board._batch.count or board._closed is not None or board._reply or board._carries
    waits = waits or board.thinner is not None and board.thinner.runs
    waits = waits or board._sampling.alarms is not None and board._sampling.alarms.waiting
    waits = waits or board._whole is not None and board._whole.batch.count
    return not waits and all([entry.times for entry in board.outbox.entries])
