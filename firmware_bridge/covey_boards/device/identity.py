"""A board's two secrets: drawn at its first start, stored before anybody is told of them, and read again after that."""

try:
    from covey_boards.shared import cbor, messages
    from covey_boards.shared import tweetnacl as nacl
except ImportError:
    import cbor
    import messages
    import tweetnacl as nacl
try:
    from micropython import const
except ImportError:
    const = int

IDENTITY_FILE = "identity.key"
_DRAWN = const(256)  # random bytes for a secret of 32: a poor source gets eight chances


def draw_secret():
    """Return 32 random bytes, out of many more.

    Raises:
        CryptoError: there is no random source, or it is a constant.
    """
    drawn = nacl.randombytes(_DRAWN)
    if len(set(drawn)) < 64:  # of 256 fair bytes, 128 to 195 differ
        raise nacl.CryptoError("the random source repeats itself")
    return nacl.crypto_hash(drawn)[:32]


def load_identity(storage):
    """Return the board's identity, drawn at the first start. A damaged file is none: its board is enrolled again."""
    raw = storage.read(IDENTITY_FILE)
    if raw is not None:
        try:
            return messages.identity_from_file(raw)
        except cbor.WireError:
            storage.write(messages.COLLECTOR_FILE, b"")
    identity = messages.Identity(draw_secret(), draw_secret())
    storage.write(IDENTITY_FILE, identity.to_file())
    return identity
