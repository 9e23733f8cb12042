"""This device's groups: hold, change and announce them.

The rules are at the top of `membership.py`. Messages for others are returned as `GroupSend`s, never sent here. Read
`groups.py` (the current state), `membership.py` (changes), `joining.py` (admission), then `invitations.py`,
`requests.py`, `voting.py`, `rotation.py` (a new noise key), `addresses.py` (possible recipients), `replay.py` and
`maintenance.py` (catching up), `expiry.py` (giving up) and `actions.py` (changes by people).
"""
