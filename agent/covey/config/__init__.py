"""Settings as they are declared, and as they are written: in TOML files and in the environment.

1. One field of a dataclass in `settings` is a setting: its name in files, its variable, its bounds and its meaning
   in the manual all come from there.
2. Whatever is read is checked before it is used; what is unknown is refused, with the nearest known name.
3. A file that is changed keeps its comments and its layout.

To be read in this order: `settings`, `file`; `tables_options` has those of `covey tables`, for completion and manual.
"""
