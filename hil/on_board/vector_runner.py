"""Run a file of vectors through `tweetnacl`: the same lines, the same code, on CPython and on every board.

A line names a function, its arguments and what must come out, in hexadecimal, `-` for nothing and `refused` for an
answer that must not be given. Prints each failure and one last line, `IMPLEMENTATION passed/all`.
"""

try:
    from covey_boards.shared import tweetnacl as nacl
except ImportError:
    import tweetnacl as nacl
from binascii import hexlify, unhexlify


def _bytes(field):
    return b"" if field == "-" else unhexlify(field)


def _sign(seed, message):
    public, secret = nacl.crypto_sign_seed_keypair(seed)
    assert nacl.crypto_sign(message, secret)[64:] == message
    return public + nacl.crypto_sign_detached(message, secret)


def _verify(signature, message, public):
    nacl.crypto_sign_verify_detached(signature, message, public)
    return message


FUNCTIONS = {
    "scalarmult": nacl.crypto_scalarmult,
    "scalarmult_base": nacl.crypto_scalarmult_base,
    "beforenm": nacl.crypto_box_beforenm,
    "box": nacl.crypto_box,
    "box_open": nacl.crypto_box_open,
    "secretbox": nacl.crypto_secretbox,
    "secretbox_open": nacl.crypto_secretbox_open,
    "sign": _sign,
    "verify": _verify,
    "hash": nacl.crypto_hash,
    "onetimeauth": nacl.crypto_onetimeauth,
    "stream_xor": nacl.crypto_stream_xor,
    "core_salsa20": nacl.crypto_core_salsa20,
    "core_hsalsa20": nacl.crypto_core_hsalsa20,
    "stream_salsa20_xor": nacl.crypto_stream_salsa20_xor,
    "hashblocks": nacl.crypto_hashblocks,
}


def answer(function, arguments):
    """Return what a function says to a line's arguments, as the line would write it."""
    try:
        result = FUNCTIONS[function](*[_bytes(field) for field in arguments])
    except nacl.CryptoError:
        return "refused"
    return hexlify(result).decode() or "-"


def run(path):
    """Check every line of a file."""
    passed = count = 0
    with open(path) as lines:  # noqa: PTH123 - boards have no pathlib
        for line in lines:
            fields = line.split()
            if not fields or fields[0] == "#":
                continue
            count += 1
            got = answer(fields[0], fields[1:-1])
            if got == fields[-1]:
                passed += 1
            else:
                print("FAILED", line.strip()[:200], "got", got[:200])
    print(nacl.implementation, "%d/%d" % (passed, count))  # noqa: UP031 - old MicroPython has no f-strings
