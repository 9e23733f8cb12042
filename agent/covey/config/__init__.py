"""Settings as they are declared, and as they are written: in TOML files and in the environment.

1. One field of a dataclass in `schema.py` is a setting: its name in files, its variable, its bounds and its meaning
   in the manual all come from there.
2. Whatever is read is checked before it is used; what is unknown is refused, with the nearest known name.
3. A file that is changed keeps its comments and its layout.

Read `schema.py`, `settings.py` (checks), `file.py` (reads and writes), `ordered.py` (what operators set). Sections that
may stand several times are in `sensors.py` and `doors.py`, by `kinds.py` and `tables.py`; `actions.py` reads the file
of an action. `tables_options.py` has the options of `covey tables`, for completion and manual.
"""
