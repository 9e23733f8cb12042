"""This device's groups: hold, change and announce them.

Rules stand at the top of `membership.py`; what others have to hear is returned as `GroupSend`s, never sent here.
Read `groups.py` (what holds), `membership.py` (what changes it), `joining.py` (who comes in), then `invitations.py`,
`requests.py`, `voting.py`, `rotation.py` (a new noise key), `addresses.py` (whom to speak to), `replay.py` and
`maintenance.py` (catching up), `expiry.py` (giving up), `authorisation.py` (who may speak) and `actions.py`
(what people do with groups).
"""
