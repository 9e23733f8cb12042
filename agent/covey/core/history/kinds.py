"""The kinds of operations (docs/protocol.md, "History")."""

from __future__ import annotations

from enum import IntEnum


class OperationKind(IntEnum):
    """What an operation is."""

    MERGE = 0
    NOTE = 1
    PROFILE = 2
    SESSION = 3
    OPERATOR = 4
    SETTING = 5
    COMMAND = 6
    APPROVAL = 7
    OBEYING = 8
    CHECKPOINT = 9
    OWN_GROUP = 10
    PREFERENCE = 11
    FILE = 12
    RELEASE = 13


ORDER_KINDS = (
    OperationKind.OPERATOR,
    OperationKind.SETTING,
    OperationKind.COMMAND,
    OperationKind.APPROVAL,
    OperationKind.RELEASE,
)
"""What operators say to devices: a collector lands it."""

PERSONAL_KINDS = (OperationKind.OWN_GROUP, OperationKind.PREFERENCE)
"""What a person's devices say to each other, in their personal group alone."""

SAYS_NOTHING_JUDGED = frozenset(
    {
        OperationKind.MERGE,
        OperationKind.NOTE,
        OperationKind.SESSION,
        OperationKind.PROFILE,
        OperationKind.CHECKPOINT,
    }
)
"""What is judged by where it stands alone, once a later checkpoint covers it."""
