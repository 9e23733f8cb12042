"""Run a file of lines of `message_vectors` through the board's modules: the same code on CPython and on every board.

Prints each failure and one last line, `messages passed/all`.
"""

import json
import struct

try:
    from covey_boards.device import link_keys
    from covey_boards.device.identity import Identity
    from covey_boards.shared import batch, cbor, line_orders, messages
    from covey_boards.shared import tweetnacl as nacl
    from covey_boards.shared.datagrams import Datagrams
except ImportError:
    import batch
    import cbor
    import line_orders
    import link_keys
    import messages
    import tweetnacl as nacl
    from datagrams import Datagrams
    from identity import Identity
from binascii import hexlify, unhexlify


def _bytes(field):
    return b"" if field == "-" else unhexlify(field)


def _hex(data):
    return hexlify(data).decode() or "-"


def _write(seed, kind, recipient, group_id, incarnation, seq, link_seq, sent_at_us, body):
    identity = Identity(_bytes(seed), bytes(32))
    numbers = int(seq), int(link_seq), int(sent_at_us)
    keys = _bytes(recipient), _bytes(group_id), _bytes(incarnation)
    return _hex(messages.write_message(identity, int(kind), *keys, *numbers, _bytes(body)))


def _read(raw):
    messages.read_message(_bytes(raw))
    return "ok"


def _acknowledgement(body):
    incarnation, upto, spans = messages.read_acknowledgement(_bytes(body))
    ranges = ",".join(["[%d,%d]" % span for span in spans])  # noqa: UP031 - old MicroPython has no f-strings
    return "%s:[%d,[%s]]" % (_hex(incarnation), upto, ranges)  # noqa: UP031


def _batch(number, kind, boot_id, now_us, wall_us, readings):
    collected = batch.Batch()
    for name, unit, scale, value, time_us in json.loads(_bytes(readings).decode()):
        if scale is None:
            value = struct.unpack("<d", unhexlify(value))[0]  # noqa: PLW2901
        assert collected.add(name, unit, scale, value, time_us)
    return _hex(collected.body(int(number), _bytes(boot_id), int(kind), int(now_us), int(wall_us)))


def _line(raw):
    line_orders.from_line(_bytes(raw))
    return "ok"


def _result(seed, body):
    _, secret = nacl.crypto_sign_seed_keypair(_bytes(seed))
    return _hex(nacl.crypto_sign_detached(b"covey/1 board result\0" + _bytes(body), secret))


def _datagrams(raws):
    receiver = Datagrams(b"here")
    return ",".join([_hex(receiver.frames_of(_bytes(raw))) for raw in raws.split(",")])


FUNCTIONS = {
    "cbor": lambda raw: _hex(cbor.encode(cbor.decode(_bytes(raw), 4096))),
    "seal": lambda *fields: _hex(messages.seal(*[_bytes(field) for field in fields])),
    "link": lambda message, tag, key, counter: _hex(
        link_keys.seal_by_link(_bytes(message), _bytes(tag), _bytes(key), int(counter))
    ),
    "open": lambda *fields: _hex(messages.open_sealed(*[_bytes(field) for field in fields])),
    "padded": lambda length: str(messages.padded_length(int(length))),
    "write": _write,
    "read": _read,
    "ack": _acknowledgement,
    "loss": lambda fields: _hex(messages.write_loss(*json.loads(_bytes(fields).decode()))),
    "batch": _batch,
    "line": _line,
    "result": _result,
    "datagrams": _datagrams,
}


def answer(function, arguments):
    """Return what a function says to a line's arguments, as the line would write it."""
    try:
        return FUNCTIONS[function](*arguments)
    except cbor.WireError as error:
        return error.code


def run(path):
    """Check every line of a file."""
    passed = count = 0
    with open(path) as lines:  # noqa: PTH123 - boards have no pathlib
        for line in lines:
            fields = line.split()
            count += 1
            got = answer(fields[0], fields[1:-1])
            if got == fields[-1]:
                passed += 1
            else:
                print("FAILED", line.strip()[:300], "got", got[:300])
    print("messages", "%d/%d" % (passed, count))  # noqa: UP031
