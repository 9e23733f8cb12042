"""Actions that a device's owner defines: how much of a definition is read, and what an action may take."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

MAXIMUM_ACTIONS = 64
"""Actions that one device's owner lets operators have done: a line that a person can still read."""

MAXIMUM_DEFINITION_BYTES = 16 * KIB
"""A definition's file: all choices of some arguments, with comments."""

MAXIMUM_ACTION_WORDS = 64
"""Words of an action's command line."""

MAXIMUM_ACTION_INPUT_BYTES = 4 * KIB
"""What an action's program reads from its standard input: the smallest pipe that a kernel makes holds it, so nobody
waits for a program that does not read."""

MAXIMUM_ACTION_SUMMARY_BYTES = 128
"""What an action does, in a line of a table."""

MAXIMUM_ARGUMENT_CHOICES = 256
"""What an argument may be, one by one, and how many different characters a text may be made of."""

MAXIMUM_UNIT_RIGHTS = 16
"""Groups, paths, devices and capabilities of each kind that a definition may give to an action's unit."""

MAXIMUM_ACTION_TASKS = 64
"""Processes and threads of an action's unit, and of a user beyond those that run when its program starts as a child of
the agent: a program with some children, and no fork bomb."""

MAXIMUM_ACTION_FILE_BYTES = 1_024 * MIB
"""The largest file that an action's program writes: ten times the largest that Covey brings, and less than a card; one
that writes for ever is ended there."""

MAXIMUM_ACTION_SECONDS = 3_600
"""The longest that an action may run; what takes longer is a service that an action starts."""

MAXIMUM_ACTION_MIB = 4_096
"""The most memory that a definition may give to each of its processes."""

MAXIMUM_ACTION_OUTPUT_BYTES = 64 * KIB
"""What is kept of an action's output: its beginning. It fits into one message."""

ACTION_READ_BYTES = 256 * KIB
"""Output that is read in one turn of the agent: a program that never stops writing holds nothing else up."""

MAXIMUM_RESULT_WHY_BYTES = 256
"""Why a device did not do what it was ordered, in a sentence or two."""

MAXIMUM_RESULT_CODE_BYTES = 32
"""The same as a program reads it."""

RESULTS_OF_ONE = 1_024
"""Results of one device in one group that others keep, the last ones: more commands to one device than anybody reads
about."""

RESULTS_RESENT = 256
"""Results that a device repeats in a minute for recipients that lack them: their claims must not keep it busy."""

RESULT_OF_FORMER_MEMBER_US = 30 * 86_400_000_000
"""For so long results wait for an operator's device after their device has left the group of the order: a month, as a
notice of removal."""

RESULT_OUTPUT_BYTES_OF_ONE = 4 * MIB
"""The outputs of one device in one group that others keep, the last ones; the rows stay."""

RESULT_OUTPUT_BYTES = 256 * MIB
"""The same of all members of a group, each an equal share, one whole output at least: a fleet's journals, on a card."""

WAITING_COMMANDS = 256
"""Commands that wait on one device; a further one is refused, so that its operator knows."""

LOST_COMMANDS = 64
"""Commands from before its records begin of which a device says that it does not know."""

ACTION_TRIES = 3
"""Beginnings of an action that may be repeated, before it is unknown: one that takes its machine down with it does so
that often, and not for ever."""

CLOCK_SETTLES_US = 120_000_000
"""How long an agent has to run before a clock that is not synchronised is taken for one that will not be soon."""

MAXIMUM_TRIAL_SECONDS = 604_800
"""The longest that something may be on trial: a week, for a machine that speaks once a day."""

TRIAL_STARTS = 5
"""Starts of the agent while something is on trial: an update that takes it down each time falls back, and a person who
looks after it, or a power cut or two, does not make a good one do so."""

ROLL_BACK_TRIES = 3
"""Attempts to fall back: what hinders it may have passed the next time, and for ever it is not tried."""

ROLL_BACK_REST_US = 10_000_000
"""Between two of them: a disk, or a service, has time to come round."""

CONFIRM_REST_US = 5_000_000
"""Between two looks at whether what is on trial is well, where it was not yet."""

INSTALLER_FETCH_US = 86_400_000_000
"""How long an installer's file is asked for: one of 100 MiB over a link of some kB/s comes in that time."""

MOMENT_REST_US = 120_000_000
"""Between two questions whether this is the moment to install: a program that starts this often costs a Pi 1 % of a
core."""

MAXIMUM_GROUP_MOVES = 8
"""Moves of one device to other groups at a time: it is in few groups, and each move may wait for weeks."""

MOVE_REST_US = 5_000_000
"""Between two looks at a move that is under way: what it waits for takes minutes or weeks."""

MOVED_LEAVES_US = 7 * 86_400_000_000
"""How long a device that has moved waits in the old group until an operator removes it. An operator removes all that
have moved by one manifest; each that leaves by itself costs one that begins an epoch."""

STAGING_REST_US = 2_000_000
"""Between two looks at whether it has come."""

SLOT_FREE_BYTES = 64 * MIB
"""Free disk space next to a new version of Covey while it is built: the outbox has its room."""

PROBED_MEMBERS = 8
"""Members that are asked for an acknowledgement on trial: one that is awake is enough."""

MAXIMUM_VERSION_CHARACTERS = 64
"""What an installer calls the version that a device is on."""
