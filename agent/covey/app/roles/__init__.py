"""What an agent does beyond a plain member, each at its own rhythm: implementations of `runtime.Role`.

Roles are pure in time and chance: clock, randomness and the world come in as arguments, each as a Protocol no wider
than the role needs. Begin with `sensors.py` and `publisher.py`, the smallest two; `collector.py` is the largest.
"""
