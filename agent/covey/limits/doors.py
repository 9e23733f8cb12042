"""Bounds of doors, all of them this machine's own."""

from __future__ import annotations

MAXIMUM_DOORS = 8
"""Each has a thread, and an opened segment in memory while it has much to send."""

DOOR_BATCH_MESSAGES = 500
"""Messages in one batch, as many as a fleet sends in some seconds."""

DOOR_BATCH_READINGS = 5_000
"""Readings in one batch, some 250 kB of JSON; a message that has more goes alone."""

DOOR_BATCH_SEGMENTS = 64
"""Segments that one batch is gathered from, so that a quiet fleet's backlog is not sent a segment at a time."""

DOOR_SURVEY_SECONDS = 60.0
"""Time between two looks at who is in the fleet, what it is called, and which nodes a vault has."""

DOOR_SEND_SECONDS = 20.0
"""Time that a receiver has for an answer, from the request to its end; and for a connection."""

DOOR_RETRY_SECONDS = 2.0
"""Time before a batch that was not taken is sent again; doubled each time."""

DOOR_RETRY_MAXIMUM_SECONDS = 300.0
"""Longest time before a batch is sent again, whatever the receiver asks for."""

DOOR_REFUSALS = 5
"""Times that a receiver may refuse one message as nothing that it takes, before the message is passed over."""

DOOR_UNACKNOWLEDGED = 500
"""Publications that a broker has not acknowledged: well below the 1,000 that mosquitto queues."""

DOOR_SERIES_OF_DEVICE = 256
"""Series of one device that become entities: a device that invents names does not fill Home Assistant."""

DOOR_SERIES = 20_000
"""Series of all devices that become entities, each some 600 bytes of memory here."""

DOOR_PATIENCE_US = 600_000_000
"""How long a part of the vault that cannot be read is waited for, before it is passed over."""

DOOR_LOSSES_KEPT = 100
"""Records of what a door has passed over; the oldest go first, and all are counted."""

DOOR_STANDS_SECONDS = 600
"""How long a door's receiver has taken nothing when `covey check` calls that an error."""

DOOR_HOURS = 500_000
"""Hours of series that all doors keep for their receivers' histories, some 50 MB: two weeks of 1,500 series."""

DOOR_HOURS_KEPT_US = 14 * 24 * 3_600_000_000
"""How long an hour to which nothing is added is kept, so that one that is partly live and partly late is whole."""

DOOR_HOURS_PRUNED = 5_000
"""Hours that are deleted at once."""

DOOR_HOURS_PRUNED_EVERY_US = 600_000_000
"""Time between two looks for what is too old."""

DOOR_HOUR_SETTLES_US = 900_000_000
"""Time after an hour's end before it is imported: Home Assistant makes its own row of it soon after the end."""

DOOR_IMPORT_HOURS = 2_000
"""Hours that one connection imports, some 250 kB of JSON."""

DOOR_IMPORT_SECONDS = 60.0
"""Time that a receiver has for all messages of one connection."""

DOOR_IMPORT_BYTES = 32 * 1024 * 1024
"""What one connection may receive: a registry of 20,000 entities is some 12 MB."""

DOOR_IMPORT_LOOKS = 8
"""Looks at what a receiver has stored, before its hours are sent again: it answers before it stores."""

DOOR_IMPORT_LOOK_SECONDS = 0.5
"""Time before the second look; doubled each time, to 5 s at most."""

DOOR_IMPORT_INTERVAL_SECONDS = 30.0
"""Time between two looks for hours to import."""

MAXIMUM_DOOR_SECRET_BYTES = 4_096
"""A token, password or shared secret in its file."""
