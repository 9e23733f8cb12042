"""Two devices that share a short secret come to trust each other's keys: the ceremony, without relay, store or clock.

A device that shows a code is the *inviter*, one that types it the *joiner*. Who plays which part, file by file:

| | the inviter | the joiner |
|---|---|---|
| command | `cli/commands/invite.py` | `cli/commands/join.py` |
| what it is for | `app/pairing/inviting.py` | `app/pairing/joining.py` |
| around the machine | `app/loop/pairing_host.py` | `app/pairing/pairing_guest.py` |
| the machine itself | `core/pairing/inviter.py` | `core/pairing/joiner.py` |

1. Bytes from the rendezvous and `now` go in; messages, events and an ending come out. What is durable: `pending.py`.
2. A machine changes its state by its transition table alone (`INVITER`, `JOINER`: docs/internals/state-machines.md).
3. Nothing that comes is believed before the ceremony has proved it; hostile bytes give a `RemoteError`, nothing else.

Read `invite.py` (the code and the URI), `messages.py` (what is said, and the keys), `ceremony.py` (the rules),
`inviter.py` and `joiner.py`, then `pending.py`.
"""
