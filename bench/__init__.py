"""Side-by-side benchmarks: each figure beside its peer, from the same run."""
