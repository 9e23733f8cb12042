"""Hardware in the loop: the same tests on a board from `boards.toml`, or on real MicroPython in an emulator."""
