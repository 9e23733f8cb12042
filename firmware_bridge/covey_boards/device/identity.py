"""A board's two secrets: drawn at its first start, stored before they are used, and read at later starts.

Loaded once, then unloaded: only the `Identity` remains on a board's heap.
"""

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
_PUBLIC_FILE = "identity.pub"  # what follows from it: 0.4 s of a start on an RP2040
_DRAWN = const(256)  # random bytes for a secret of 32: a poor source gets eight chances
_DOMAIN = b"covey/1 board\0"


class Identity:
    """A board's secrets, its two public keys, and the signature by which it binds its noise key to its signing key.

    Both secrets are 32 random bytes and never leave the board. `public` is what follows from them: the two keys and the
    signature.
    """

    def __init__(self, seed, noise_secret, public=None):
        self.noise_secret = noise_secret
        if public is not None:
            self.signing_public, self.noise_public, self.proof = public
            self.signing_secret = seed + self.signing_public
            return
        self.signing_public, self.signing_secret = nacl.crypto_sign_seed_keypair(seed)
        self.noise_public = nacl.crypto_scalarmult_base(noise_secret)
        self.proof = nacl.crypto_sign_detached(_DOMAIN + self.noise_public, self.signing_secret)


def noise_key_is_proven(signing_public, noise_public, proof):
    """Say whether the holder of a signing key says that this noise key is its own."""
    try:
        nacl.crypto_sign_verify_detached(proof, _DOMAIN + noise_public, signing_public)
    except nacl.CryptoError:
        return False
    return True


def to_file(identity):
    """Return what `identity.key` holds (docs/protocol/vault.md, section 14)."""
    return cbor.encode([1, identity.signing_secret[:32], identity.noise_secret])


def from_file(raw, public=None):
    """Return the identity of `to_file`, with what follows from it where that is known.

    Raises:
        WireError: the bytes are damaged.
    """
    return Identity(*cbor.record(cbor.decode(raw, 128), (1, 1), 32, 32)[1:], public)


def draw_secret():
    """Return 32 random bytes, out of many more.

    Raises:
        CryptoError: there is no random source, or it is a constant.
    """
    drawn = nacl.randombytes(_DRAWN)
    if len(set(drawn)) < 64:  # of 256 fair bytes, 128 to 195 differ
        raise nacl.CryptoError("the random source repeats itself")
    return nacl.crypto_hash(drawn)[:32]


def _known(storage, raw):
    """Return (signing key, noise key, proof) that were found for exactly these secrets; None where they were not."""
    try:
        fields = cbor.record(cbor.decode(storage.read(_PUBLIC_FILE) or b"", 256), (1, 1), 32, 32, 32, 64)
    except cbor.WireError:
        return None
    return tuple(fields[2:]) if fields[1] == nacl.crypto_hash(raw)[:32] else None


def _keep(storage, raw, identity):
    public = identity.signing_public, identity.noise_public, identity.proof
    try:
        storage.write(_PUBLIC_FILE, cbor.encode([1, nacl.crypto_hash(raw)[:32]] + list(public)))
    except OSError:
        pass  # it costs time, and nothing else


def load_identity(storage):
    """Return the board's identity, drawn at the first start. A damaged file is none: its board is enrolled again."""
    raw = storage.read(IDENTITY_FILE)
    if raw is not None:
        try:
            known = _known(storage, raw)
            found = from_file(raw, known)
            if known is None:
                _keep(storage, raw, found)
            return found
        except cbor.WireError:
            storage.write(messages.COLLECTOR_FILE, b"")
    identity = Identity(draw_secret(), draw_secret())
    storage.write(IDENTITY_FILE, to_file(identity))
    return identity
