"""The parts of Covey's protocol that a board writes and reads: signed messages, sealed envelopes, acknowledgements,
loss records; and the few messages between board and gateway on their line.

The bytes are those of `covey.core` (docs/protocol/, sections 4 to 7 and 9; the line: section 18); `tests/vectors` is
the contract for both. Signed bytes are kept as received. A box that does not open gives the same
`WireError("decryption")` for every reason.
"""

try:
    from . import tweetnacl as nacl
    from .cbor import UINT, WireError, decode, encode, record
except ImportError:
    import tweetnacl as nacl
    from cbor import UINT, WireError, decode, encode, record
try:
    from micropython import const
except ImportError:
    const = int

MESSAGE_BYTES_MAX = 4_096  # MAXIMUM_BOARD_MESSAGE_BYTES in agent/covey/limits/
_LINE_BYTES_MAX = const(4_096)  # of link_machine
ENVELOPE_BYTES_MAX = _LINE_BYTES_MAX - 80  # what a line message leaves beside a key
NO_GROUP = bytes(32)
SOFTWARE = "covey-board 0.2.0"
_TROUBLE_LENGTH_MAX = const(120)  # characters of what a person reads of an error
LOSSES_FILE = "losses.cbor"  # what an incarnation life lost, and no record has said yet
COLLECTOR_FILE = "collector.cbor"  # what ENROL said, on a board that has files; `covey mcu reset --unenrol` removes it

BLOB, LINK, ACK, TELEMETRY, LOSS, RESUME, COLLECTOR_KEY = 0x03, 0x07, 0x08, 0x09, 0x0A, 0x0E, 0x10
SUMMARY = 0x1B
OUTBOX_FULL, DAMAGED = 1, 4

_DOMAIN = b"covey/1 message\0"
_FIELD_PRIME = const((1 << 255) - 19)
# docs/protocol/core.md, section 5: types without a number; of the others a board takes 0x03 to 0x10; SUMMARY it sends.
_UNSEQUENCED = (0x08, 0x0E, 0x15, 0x18)
_EITHER = const(0x0F)


# Envelopes (section 4)


def padded_length(length):
    """Return the PADMÉ length of a plaintext, its marker byte counted."""
    if length <= 40:
        return 40
    exponent = len(bin(length)) - 3  # of its highest bit, behind "0b"
    zeros = (1 << exponent - (len(bin(exponent)) - 2)) - 1
    return (length + zeros) & ~zeros


def padded(message):
    """Return a plaintext for a box."""
    return message + b"\x80" + bytes(padded_length(len(message) + 1) - len(message) - 1)


def seal(message, noise_public, secret, nonce):
    """Return a sealed envelope; `secret` (32) and `nonce` (24) are fresh random bytes each time.

    Raises:
        WireError: the recipient's key is unusable.
    """
    try:
        key = nacl.crypto_box_beforenm(noise_public, secret)
    except nacl.CryptoError:
        raise WireError("decryption")
    ephemeral_public = nacl.crypto_scalarmult_base(secret)  # before copies of the message fill the heap
    return encode([1, ephemeral_public, nonce, nacl.crypto_secretbox(padded(message), nonce, key)])


def open_sealed(raw, noise_secret):
    """Open an envelope and return the message.

    Raises:
        WireError: malformed, too long, or not sealed for this key.
    """
    version, ephemeral_public, nonce, box = record(decode(raw, ENVELOPE_BYTES_MAX), (0, 255), 32, 24, bytes)
    if version != 1:
        raise WireError("unsupported" if version > 2 else "malformed")
    if len(box) < 16 or int.from_bytes(ephemeral_public, "little") >= _FIELD_PRIME:
        raise WireError("decryption")
    try:
        opened = nacl.crypto_box_open(box, nonce, ephemeral_public, noise_secret)
    except nacl.CryptoError:
        raise WireError("decryption")
    message = opened.rstrip(b"\0")
    if message[-1:] != b"\x80" or padded_length(len(message)) != len(opened):
        raise WireError("malformed")
    return message[:-1]


# Messages (section 5)


def write_message(identity, kind, recipient, group_id, incarnation, seq, link_seq, wall_us, body):
    """Sign and return a message's bytes."""
    fields = [1, kind, identity.signing_public, recipient, group_id, incarnation, seq, link_seq, wall_us, body]
    signed = encode(fields)
    return encode([nacl.crypto_sign_detached(_DOMAIN + signed, identity.signing_secret), signed])


def read_message(raw):
    """Verify a message; return [type, author, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body].

    Raises:
        WireError: malformed, too long, or not signed by the author that it names.
    """
    signature, signed = record(decode(raw, MESSAGE_BYTES_MAX), 64, bytes)
    fields = record(
        decode(signed, MESSAGE_BYTES_MAX), (0, 255), (0, 255), 32, 32, 32, 8, UINT, UINT, UINT, bytes
    )
    if fields[0] != 1:
        raise WireError("malformed")
    try:
        nacl.crypto_sign_verify_detached(signature, _DOMAIN + signed, fields[2])
    except nacl.CryptoError:
        raise WireError("signature")
    kind, seq, link_seq = fields[1], fields[6], fields[7]
    unsequenced = link_seq == 0 if kind == _EITHER else kind in _UNSEQUENCED
    known = 0x03 <= kind <= 0x10 or kind in (0x15, SUMMARY)
    if (seq == 0) != (link_seq == 0) or ((known or unsequenced) and (link_seq == 0) != unsequenced):
        raise WireError("malformed")
    if not known:
        raise WireError("unsupported")
    return fields[1:]


# Acknowledgements and losses (sections 6 and 7)


def read_acknowledgement(body):
    """Return (incarnation, upto, [(first, last), ...]).

    Raises:
        WireError: malformed, or more ranges than there may be.
    """
    incarnation, received = record(decode(body, 2_048), 8, list)
    upto, ranges = record(received, UINT, list)
    if len(ranges) > 64:
        raise WireError("limit")
    spans = []
    end = upto
    for value in ranges:
        first, last = record(value, UINT, UINT)
        if not end + 1 < first <= last:
            raise WireError("malformed")
        spans.append((first, last))
        end = last
    return incarnation, upto, spans


def write_loss(reason, places, numbers, incarnation=None):
    """Return the body of a loss record: ranges (first, last) of link sequences, and of the telemetry numbers among them.

    `incarnation` is the incarnation that both count in, where it is not the record's own.
    """
    body = [reason, places, numbers]
    return encode(body + [incarnation] if incarnation else body)


# What board and gateway tell each other (section 18)

IDENTIFY, CARRY, REPORT, TROUBLE = 1, 2, 3, 4  # from the board; `line_orders` has their shapes
TIME, ENROL, DELIVER, RESTART = 16, 17, 18, 19  # from the gateway

_LINE_SHAPES = {
    TIME: (UINT, bool),  # wall clock in microseconds; whether it is synchronised
    ENROL: (32, 32, 32),  # group, collector's signing key, collector's noise key
    DELIVER: (bytes,),  # envelope
    RESTART: (),
}


def to_line(kind, *fields):
    """Return a message for the other end of the line."""
    return encode([kind] + list(fields))


def from_line(raw):
    """Return [kind, field, ...] of a gateway's message; of orders and firmware `line_orders` has the shapes.

    Raises:
        WireError: it is none.
    """
    value = decode(raw, _LINE_BYTES_MAX)
    kind = value[0] if isinstance(value, list) and value else None
    if isinstance(kind, bool) or not isinstance(kind, int) or kind not in _LINE_SHAPES:
        raise WireError("malformed")
    return record(value, (kind, kind), *_LINE_SHAPES[kind])


def announced_digest(raw):
    """Return by what the firmware is known that a FIRMWARE of the line announces.

    Raises:
        WireError: it announces none.
    """
    fields = decode(record(decode(raw, MESSAGE_BYTES_MAX), UINT, bytes)[1], MESSAGE_BYTES_MAX)
    return nacl.crypto_hash(record(fields[:3] if isinstance(fields, list) else fields, 64, 32, bytes)[2])[:32]


def trouble(name, reason):
    """Return a line for people of an exception: whose it is, its kind, and what it says."""
    return ("%s: %s (%s)" % (name, type(reason).__name__, reason))[:_TROUBLE_LENGTH_MAX]
