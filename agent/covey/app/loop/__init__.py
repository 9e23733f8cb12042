"""The loop of every process that is connected to relays: the agent, and commands that wait for an answer.

Read `runtime.py` first (input, node, commit, release), then `relay_loop.py`, which builds node, relays and roles and
runs them. `relays.py` connects to all relays at once and chooses one for each message; `deliveries.py` processes what
they deliver. Some roles belong to the loop itself: `pairing_host.py` (loaded by `pairing_role.py`),
`group_teardown.py`, the two of `noise_keys.py`, and `member_accounts.py`, for a device that manages a broker's
accounts. Other roles are with their subjects. `takeovers.py` notices another device with the same identity;
`following.py` bounds how long a stream stays open.
"""
