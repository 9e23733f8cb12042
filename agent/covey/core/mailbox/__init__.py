"""Mailboxes: members that keep sealed envelopes for devices that sleep, and can open none (docs/protocol.md).

    messages    what devices and mailboxes say to each other: one body for each message of 002
    records     what is read and written of the durable state
    states      the session of a device with one mailbox: its transition table
    client      a device's side: greeting, pulling, deleting
    pushing     what a sender hands over, and to which mailboxes
    service     a mailbox's side: who may speak, what is kept, in which order
    hooks       how a device wants to be woken
    revoking    telling mailboxes of removals
    exchange    both sides in one node: what comes, what is due

Nothing here is loaded before a group of the device names a mailbox (`core/mailboxes.py`). Read `messages.py` first.
"""
