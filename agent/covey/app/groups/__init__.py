"""Groups, requests to join further ones, and a person's own devices.

Read `groups.py` first: create, add, remove, ban, promote, leave, destroy. `requests.py` lists and answers invitations
to further groups, `previews.py` shows what one says. `own.py` and `own_devices.py` keep one person's devices in the
same groups. `documents.py` has the JSON. Inviting and joining are in `pairing`. `ban_targets.py` finds the member,
device or invite that a ban names; `whole_chain.py` fetches manifests that this device lacks.
"""
