"""A year in ten minutes: real agents, a real broker and clocks that jump. `python -m bench.year --help`."""
