"""The board's side of `crypto_instructions.py`, frozen into its firmware: MicroPython's dialect, without annotations."""

# mypy: ignore-errors
# ruff: noqa: ARG002, E501, F821

import gc
import sys

from machine import mem32

TIMER = 0x40008000  # nRF51 TIMER0, 16 MHz: a step is 62.5 instructions
MESSAGE = bytes(256)
KEY = bytes(range(32))
NONCE = bytes(24)
# X25519's base point times KEY, so that a multiplication can be measured without the base point's comb.
POINT = b"\x8f\x40\xc5\xad\xb6\x8f\x25\x62\x4a\xe5\xb2\x14\xea\x76\x7a\x6e\xc9\x4d\x82\x9d\x3d\x7b\x5e\x1a\xd1\xba\x6f\x3e\x21\x38\x28\x5f"


def _start():
    mem32[TIMER + 0x508] = 3  # 32 bits
    mem32[TIMER + 0x510] = 0  # no prescaler
    mem32[TIMER] = 1


def _now():
    mem32[TIMER + 0x40] = 1
    return mem32[TIMER + 0x540]


def _measure(name, function, *arguments):
    gc.collect()
    start = _now()
    result = function(*arguments)
    print(name, (_now() - start) * 125 // 2)
    return result


@micropython.viper
def _count_down(n: int):
    while n:
        n -= 1


def _load(implementation):
    """Return what computes: "native", "viper" or "plain"."""
    if implementation == "native":
        return __import__("_tweetnacl")
    if implementation == "plain":
        sys.modules["tweetnacl_limbs"] = None  # not importable, as on a port without viper
    return __import__("tweetnacl_soft")


def measure(implementation):
    """Print instructions per operation."""
    nacl = _load(implementation)

    _start()
    print("implementation", nacl.IMPLEMENTATION)
    _measure("nothing", len, MESSAGE)
    _measure("loop-1000", _count_down, 1000)
    _measure("loop-3000", _count_down, 3000)
    _measure("sha512", nacl.sha512, MESSAGE)
    box = _measure("secretbox", nacl.secretbox, MESSAGE, NONCE, KEY)
    _measure("secretbox_open", nacl.secretbox_open, box, NONCE, KEY)
    _measure("scalarmult", nacl.scalarmult, KEY, POINT)
    _measure("scalarmult_base", nacl.scalarmult_base, KEY)
    public, secret = nacl.sign_seed_keypair(KEY)
    signature = _measure("sign", nacl.sign_detached, MESSAGE, secret)
    print("verified", _measure("verify", nacl.sign_verify_detached, signature, MESSAGE, public))


def spread(implementation):
    """Print the fewest and the most instructions of secret operations over keys that differ as much as keys can."""
    nacl = _load(implementation)

    _start()
    keys = [bytes(32), b"\xff" * 32, KEY, b"\x55" * 32, b"\x00" * 16 + b"\xff" * 16, b"\x80" + bytes(31)]
    for name, function in (
        ("scalarmult", lambda key: nacl.scalarmult(key, POINT)),
        ("scalarmult_base", nacl.scalarmult_base),
        ("sign", lambda key: nacl.sign_detached(MESSAGE, key + KEY)),
        ("secretbox", lambda key: nacl.secretbox(MESSAGE, NONCE, key)),
    ):
        fewest = [1 << 60] * len(keys)
        for _ in range(4):  # the state of the heap costs the allocator some thousand instructions more or less
            for i in range(len(keys)):
                gc.collect()
                start = _now()
                function(keys[i])
                fewest[i] = min(fewest[i], (_now() - start) * 125 // 2)
        print(name, min(fewest), max(fewest))


class _Artefacts:
    """A file system of the `.mpy` files that lie in flash as bytes, so that importing loads code into the heap."""

    def mount(self, readonly, mkfs):
        pass

    def umount(self):
        pass

    def stat(self, path):
        if _find(path) is None:
            raise OSError(2)
        return (0x8000,) + 9 * (0,)

    def open(self, path, mode):
        import io

        data = _find(path)
        if data is None:
            raise OSError(2)
        return io.BytesIO(data)


def _find(path):
    from crypto_artefacts import find

    return find(path.rsplit("/", 1)[-1])


def fits(heap, frozen):
    """Print whether everything works in `heap` bytes, with code in flash or loaded into the heap."""
    if not frozen:
        import crypto_artefacts  # noqa: F401 - while frozen modules can still be found
        import vfs

        vfs.mount(_Artefacts(), "/")
        sys.path[:] = ["/"]
    gc.collect()
    filler = bytearray(gc.mem_free() - heap)
    try:
        import tweetnacl_soft

        sys.modules["_tweetnacl"] = tweetnacl_soft  # this firmware has the native module, too
        import tweetnacl as nacl

        nacl.set_randombytes(lambda n: KEY[:n])
        public, secret = nacl.crypto_box_keypair()
        box = nacl.crypto_box(MESSAGE, NONCE, public, secret)
        assert nacl.crypto_box_open(box, NONCE, public, secret) == MESSAGE
        public, secret = nacl.crypto_sign_keypair()
        assert nacl.crypto_sign_open(nacl.crypto_sign(MESSAGE, secret), public) == MESSAGE
        print("fits", len(filler) > 0)
    except MemoryError:
        print("fits", False)
