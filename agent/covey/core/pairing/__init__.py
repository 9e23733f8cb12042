"""Two devices that share a short secret learn to trust each other's keys: the ceremony, without relay, store or clock.

The device that shows a code is the *inviter*; the one where it is typed is the *joiner*. Their files:

| | the inviter | the joiner |
|---|---|---|
| command | `cli/commands/invite.py` | `cli/commands/join.py` |
| purpose | `app/pairing/inviting.py` | `app/pairing/joining.py` |
| around the machine | `app/loop/pairing_host.py` | `app/pairing/pairing_guest.py` |
| the machine itself | `core/pairing/inviter.py` | `core/pairing/joiner.py` |

1. Bytes from the rendezvous and `now` go in; messages, events and an ending come out. `pending.py` has the durable
   part.
2. A machine changes its state only by its transition table (`INVITER`, `JOINER`: docs/internals/state-machines.md).
3. Nothing received is believed before the ceremony has proved it; hostile bytes cause a `RemoteError`, nothing else.

Read `invite.py` (the code and the URI), `messages.py` (messages and keys), `ceremony.py` (the rules), `inviter.py` and
`joiner.py`, then `pending.py`.
"""
