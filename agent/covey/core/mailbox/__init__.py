"""Mailboxes: members that keep sealed envelopes for devices that sleep, and can open none (docs/protocol/).

    messages    messages between devices and mailboxes: one body for each message of 002
    client      a device's side: its session (a transition table), greeting, pulling, deleting
    pushing     what a sender pushes, and to which mailboxes
    service     a mailbox's side: its users, what it keeps, in which order
    exchange    both sides in one node: dispatch, deadlines, wake hooks and removals
    mailboxes   loads all of the above, once a group of the device names a mailbox

Read `messages.py` first.
"""
