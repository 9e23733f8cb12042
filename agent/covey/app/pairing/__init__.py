"""Inviting a device into a group, and joining by an invite.

`inviting.py` and `joining.py` are the two sides. `pairing_guest.py` runs the joiner's ceremony; the inviter's runs in
`loop/pairing_host.py`. `first_contact.py` checks a relay whose authority is not known yet. `preparing.py`,
`invite_file.py` and `joining_by_file.py` do the same for many devices by files.
"""
