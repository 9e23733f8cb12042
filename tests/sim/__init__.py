"""A seeded world in virtual time around the production core, store, roles and runtime.

`./dev sim SEED` replays one seed and tells what happened.

1. The production code is unchanged, with its SQL, signatures and envelopes. Only its surroundings are cheaper. Disks
   are memory, and what this process signed or sealed itself verifies and opens from memory (`memory.py`).
   Signatures made of hashes would be a tenth faster, and would prove another program.
2. Most worlds are small and a few are large; small worlds meet as many kinds of faults. What only a deep world shows
   has a share of seeds of its own.
3. A crash falls between commits. What a power cut leaves of a real file is tested by `tests/powercut.py`.
4. The mutation gate judges each saving: all mutants must still be caught within the same number of seeds.
"""
