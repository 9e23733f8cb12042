"""Mailboxes: members that keep sealed envelopes for devices that sleep, and can open none (docs/protocol/).

    messages    what devices and mailboxes say to each other: one body for each message of 002
    client      a device's side: its session (a transition table), greeting, pulling, deleting
    pushing     what a sender hands over, and to which mailboxes
    service     a mailbox's side: who may speak, what is kept, in which order
    exchange    both sides in one node: what comes, what is due; wake hooks and removals
    mailboxes   loads all of the above, once a group of the device names a mailbox

Read `messages.py` first.
"""
