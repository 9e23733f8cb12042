"""The agent itself: memory, start, and installed size."""
