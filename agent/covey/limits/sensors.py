"""Sensors that a configuration names: how many, how much they may say, and how long they may take."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_SENSORS = 64
"""Sensors of one device: each has a thread of its own while the agent runs."""

MAXIMUM_SENSOR_VALUES = 256
"""Registers, topics or paths that one sensor names; and what one look at it reads out of the system's folders."""

SENSOR_QUEUE_READINGS = 4_096
"""Readings of one sensor that wait for the agent's loop. A sensor that is faster waits, as does who feeds it."""

MAXIMUM_SENSOR_LINE_BYTES = 64 * KIB
"""A line that a sensor's program prints: a pack of some hundred readings."""

MAXIMUM_SENSOR_OUTPUT_BYTES = 512 * KIB
"""What a program that is run for each measurement may print."""

SENSOR_READ_SECONDS = 1.0
"""How long a sensor that speaks by itself is listened to at a time: so soon it notices that the agent ends."""

SENSOR_LOOK_SECONDS = 60.0
"""One look at all devices on a line: where so many do not answer that it takes longer, the rest is asked the next
time. Less than what is said to hang."""

SENSOR_HUNG_SECONDS = 90.0
"""A sensor that has not answered for so long is said to hang: more than any time that a definition may give it."""

MAXIMUM_SENSOR_SERIES = 1_024
"""Names that the topics of a broker make below one sensor. Further ones are dropped and reported: publishers choose
topics, and each name costs a permanent row in every table of devices."""

MAXIMUM_SERIES_READINGS_PER_MINUTE = 600
"""Readings of one name from a broker in a minute; further ones are dropped and told. Ten a second is a busy meter."""

SENSOR_SESSION_SECONDS = 86_400
"""How long a broker keeps what it has for a sensor whose agent is away."""

SENSOR_HELD_MESSAGES = 64
"""Messages of a broker that may wait for their commit: the Receive Maximum of a sensor's connection."""

SENSOR_URGENT_MESSAGES = 10
"""Held messages at which a commit is wanted at once: mosquitto sends no more than 20 unacknowledged ones by itself."""

SENSOR_RETRY_SECONDS = 1.0
"""The wait before a sensor that failed is opened again; it doubles each time ..."""

SENSOR_RETRY_MAXIMUM_SECONDS = 300.0
"""... up to this: what is plugged in again measures within five minutes."""

SENSOR_SETTLED_SECONDS = 5.0
"""A sensor that has been open for so long works, even where it has nothing to say."""

SENSOR_SILENT_SECONDS = 600
"""How long a sensor may be open without its first reading before `covey check` warns."""

SENSOR_NOTE_US = 5_000_000
"""The least time between two notes of how a sensor is: each is a sync of the disk."""

SENSOR_LINE_US = 60_000_000
"""The least time between two lines of the log about one sensor."""

MAXIMUM_SENSOR_WHY_BYTES = 200
"""Why a sensor fails, in a line."""
