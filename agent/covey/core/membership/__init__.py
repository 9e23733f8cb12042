"""This device's groups: hold, change and announce them.

The rules are at the top of `membership.py`. Messages for others are returned as `GroupSend`s, never sent here.

Read `groups.py` (the current state), `past.py` (earlier manifests), `membership.py` (changes) and `events.py` (what
they report). Then admission: `joining.py`, `invitations.py`, `requests.py`, `public_joins.py` and `gathering.py` (many
devices by one manifest). Then `voting.py`, `rotation.py` (a new noise key), `addresses.py` (possible recipients) and
`actions.py` (changes by people). Last, what devices do that disagree or were away: `replay.py` and `maintenance.py`
(catch up), `agreement.py` (who holds the same), `asking_back.py` (am I still in?), `former_members.py` (tell those who
were removed), `notices.py` and `unknown_groups.py` (messages in groups that this device does not hold), `expiry.py`
(give up).
"""
