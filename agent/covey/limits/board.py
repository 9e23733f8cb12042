"""Boards: small heaps behind a gateway."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_BOARD_MESSAGE_BYTES = 4 * KIB
"""A board's envelope, in either direction: it must fit the board's heap several times over."""

MAXIMUM_BOARD_BLOB_BYTES = 2 * KIB
"""What one `send` carries to a board: leaves room in its envelope for header, signature and padding."""

BOARD_ENVELOPES_WAITING = 64
"""Envelopes kept in memory for boards of this machine: acknowledgements, which their authors repeat."""

MAXIMUM_BOARD_NUMBERS = 32
"""Numbers in one report of a board: what a person reads, and what its row in the store holds."""

BOARD_ALARMS_SAVED = 24
"""Alarms of one board that its gateway sends at once ahead of other messages: as many as one series of its own may
raise and end within an hour (`ALARMS_PER_HOUR`)."""

BOARD_ALARM_SECONDS = 150
"""How soon it sends another one so: 24 in an hour. A board is hostile perhaps, and each of them may cost its gateway a
window of a metered link."""

BOARD_ALARM_SHARE = 2
"""The part of the outbox's room for alarms that those of boards may use, as nobody drops them: all else is left for the
gateway's own."""

MAXIMUM_SOFTWARE_BYTES = 64
"""A board's own name of its software in UTF-8: a name and a version."""

MAXIMUM_TROUBLE_BYTES = 160
"""What a board says that went wrong, in UTF-8: a line that a person reads."""

MAXIMUM_BOARD_RESULT_BYTES = KIB
"""What a board signs of an order: the beginning of its action's output, and why, in a sentence."""

MAXIMUM_BOARD_ORDER_BYTES = 2 * KIB
"""An order for a board, with its approvals: read whole in its heap, in addition to its measurements."""

MAXIMUM_BOARD_OPERATORS = 4
"""Operators that a board pins when it is enrolled: what it reads for each order."""

MAXIMUM_BOARD_IMAGE_BYTES = 512 * KIB
"""A board's firmware with the drivers of all chips, as sources several times over."""

MAXIMUM_BOARD_LIST_BYTES = 8 * KIB
"""Names, sizes and digests of a board's firmware's files: more than sixty; a board reads each from its flash."""

BOARD_PART_BYTES = 512
"""Of a firmware in one message of the line, which a board writes before it takes the next one: a heap of 64 KiB has it
in one piece, and a board hashes as much at a time."""

BOARD_GONE_US = 7 * 86_400_000_000
"""A board that has said nothing at its gateway's port for a week is on another gateway, or broken."""

MAXIMUM_UDP_BOARDS = 64
"""Boards of a group on UDP at one gateway: as many as a site has, each with its queue in memory."""

MAXIMUM_UDP_STRANGERS = 32
"""Addresses on UDP that speak the line without being a member's: boards that wait for enrolment, and strangers."""
