"""MicroPython's raw REPL for ports that have none, such as unix: what `mpremote` speaks. Runs on the board's side."""

import sys

BANNER = b"raw REPL; CTRL-B to exit\r\n>"


def put(raw):
    """Write bytes, at once."""
    sys.stdout.buffer.write(raw)


def serve():
    """Take programs and run them, for good."""
    read = sys.stdin.buffer.read
    names = {}
    code = b""
    while True:
        byte = read(1)
        if not byte:
            return
        if byte == b"\x01":
            code = b""
            put(BANNER)
        elif byte == b"\x05":
            read(2)
            code = b""
            put(b"R\x00")  # no raw paste
        elif byte == b"\x04":
            if code.strip():
                run(code, names)
            else:
                names = {}
                put(b"OK\r\nMPY: soft reboot\r\n" + BANNER)
            code = b""
        elif byte == b"\x03":
            put(b"\r\n>>> ")
        elif byte != b"\x02":
            code += byte


def run(code, names):
    """Run one program; what it prints goes before the first end mark, what it raised after it."""
    put(b"OK")
    error = None
    try:
        exec(code.decode(), names)  # noqa: S102 - that is what a REPL does
    except Exception as caught:  # noqa: BLE001 - whatever it raised is told
        error = caught
    put(b"\x04")
    if error is not None:
        sys.print_exception(error)
    put(b"\x04>")


serve()
