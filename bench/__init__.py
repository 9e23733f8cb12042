"""Benchmarks that measure each figure and its peer in the same run."""
