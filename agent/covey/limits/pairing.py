"""Joining a group: invites, ceremonies, requests."""

from __future__ import annotations

from covey.limits.units import KIB

INVITE_US = 600_000_000
"""Life of an invite: ten minutes, as long as two people need to meet."""

JOIN_RETRY_US = 30_000_000
"""Longest wait before a join request goes again, while its invite lives minutes: a relay may have lost the subscription
of an inviter, which renews it every five minutes, and an invite lives ten. Where it lives for longer, a twentieth of
that, and what any other message waits at most."""

JOIN_TRIES = 20
"""How often a join request goes at least in what is left of its invite's life, where nobody answers."""

JOIN_GRACE_US = 600_000_000
"""How long after its invite's end a join request is still repeated: the inviter's clock may be behind ours."""

JOIN_MEMORY_US = 7 * 86_400_000_000
"""How long after that an answer is still taken: no relay holds one longer."""

ADMISSION_US = 90 * 86_400_000_000
"""How long a device that was added by its keys has to take up its admission: it may lie in a box for a season."""

MAXIMUM_INVITE_BYTES = 1_536
"""An invite inside its URI; a QR code still holds it."""

MAXIMUM_RELAY_URL_BYTES = 512
"""The relay's URL in an invite."""

MAXIMUM_RELAY_ADDRESS_BYTES = 128
"""A further address of the relay in an invite: the longest name that is usual, and a port."""

MAXIMUM_ENROLMENT_PASSWORD_BYTES = 64
"""The password of the account that joiners share, in an invite."""

MAXIMUM_OPEN_INVITES = 16
"""Invites open at one time on one device."""

PREPARED_INVITE_US = 30 * 86_400_000_000
"""Default life of an invite in a file: cards are written, posted and inserted by then. Any holder of the file has a
place in the group meanwhile, so nobody may choose more than `ADMISSION_US`."""

MAXIMUM_PREPARED_INVITES = 256
"""Invites in files that are open at one time: each keeps a rendezvous, and is looked at four times a second."""

GATHER_QUIET_US = 5_000_000
"""Devices of a fleet are let in together so long after the last of them has come: each is there that much later..."""

GATHER_US = 30_000_000
"""...and after the first at the latest. Forty that are switched on at once come within it on a hub of a Pi's speed."""

NAMED_OPERATORS = 8
"""Operators that an invite names: a person reads them all before it agrees, and a QR code still holds them."""

PAIRED_JOIN_US = 3_600_000_000
"""How long a device that was accepted in a ceremony has to come with its own account: a broker that has still to hear
of it, a restart. The invite is bound to its key, so nobody else can use it."""

ACCOUNT_WAIT_US = 3_000_000
"""How long an accepted joiner waits until the relay has read its account: that takes a second at most. Where the relay
is not served just now, the joiner tries by itself."""

PAIRING_SILENCE_US = 60_000_000
"""A ceremony whose other side says nothing for so long is over: thirty messages in vain."""

PAIRING_RESEND_US = 2_000_000
"""How often the joiner repeats itself: a broker forgets what nobody listens to."""

PAIRING_TRIES = 4
"""Wrong guesses of a code at once: a mistyped one, and some that strangers make. Beyond them only one each..."""

PAIRING_TRY_US = 500_000
"""...half a second: as many as messages are looked at, so strangers who guess all the time delay an honest joiner by
seconds. That is 1,203 guesses in a code's life, of 8,589,934,592 codes."""

PAIRING_LINE = 16
"""Proofs that wait for their try, wrong ones that are remembered, and answers that a joiner proves itself to at a time;
what a crowd says beyond is dropped, and said again."""

RENDEZVOUS_BURST = 8
"""Rendezvous messages of one code that are looked at at once, where each may cost 0.1 s of a Pi's core; then..."""

RENDEZVOUS_MESSAGE_US = 500_000
"""...one in so long: a flood costs a fifth of it. Of those that wait, who is heard is drawn."""

RENDEZVOUS_NUMBERS = 9_999
"""Rendezvous of one relay: short to say, and two pairings at a time seldom meet."""

RENDEZVOUS_WAITING = 16
"""Rendezvous messages of one code that wait to be looked at; of what a crowd says beyond, which ones stay is drawn."""

MAXIMUM_RENDEZVOUS_BYTES = 32 * KIB
"""A message of a ceremony; checked before parsing. The largest carries certificates and a credential."""

MAXIMUM_CERTIFICATES_BYTES = 16 * KIB
"""The PEM text of the authorities that a joiner is to trust at the relay."""

MAXIMUM_CREDENTIAL_BYTES = 8 * KIB
"""A credential for the relay: a password, or a private key with its certificate in PEM."""

GROUP_REQUEST_US = 7 * 86_400_000_000
"""Life of an invitation to a further group: a week for a person to see it. It is bound to one device."""

MAXIMUM_GROUP_REQUESTS = 64
"""Invitations to further groups that wait for a person..."""

MAXIMUM_GROUP_REQUESTS_OF_ONE = 8
"""...and from one member; beyond those of all, each member may have one more, so that nobody uses up others' room."""

INVITE_REQUEST_US = 3_600_000_000
"""How often a person may have one member asked for an invite to one group: that member's person reads each request."""

MAXIMUM_GROUP_ASKS_OF_ONE = 8
"""Unknown groups that one device may be noted to speak of, and requests of one device for an invite: each has its own,
so that nobody uses up others' room."""

MAXIMUM_DECLINED_GROUPS = 1_024
"""Groups that a person has declined, one by one: more than anybody answers in a device's life."""

MAXIMUM_CONTACTS = 4
"""Members that a public group's URI names: one of them is there, and a QR code still holds it."""

VISIT_US = 600_000_000
"""How long a device that asks for a public group's manifest has an address: it takes it at once, or asks again."""

PUBLIC_VISITORS = 16
"""Visitors with an address at a time: for each a manifest of up to 256 KiB may wait in the outbox."""

PUBLIC_REQUEST_US = 7 * 86_400_000_000
"""How long a request to a public group is repeated: its members may be away."""

PREVIEWED_MEMBERS = 16
"""Members that an invitation to a further group names: what a person reads before answering."""
