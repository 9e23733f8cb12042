"""A board's side of `test_soak.py`: every message comes back reversed. A banner first, as boot loaders print one."""

import os
import select
import sys
import time

from link_machine import Link, Message

print("rst:0x1 (POWERON_RESET),boot:0x13\r\nMicroPython\r\n>>> ", end="")
link = Link(os.urandom(8), mtu=64)
waiting = []
poll = select.poll()
poll.register(sys.stdin, select.POLLIN)
start = time.ticks_ms()
while True:
    now = time.ticks_diff(time.ticks_ms(), start)
    if poll.poll(2):
        link.receive_bytes(sys.stdin.buffer.read(1), now)
    if link.next_deadline() is not None and now >= link.next_deadline():
        link.handle_deadline(now)
    event = link.next_event()
    while event is not None:
        if isinstance(event, Message):
            waiting.append(bytes(reversed(event.data)))
            link.acknowledge(event.token)
        event = link.next_event()
    while waiting and link.send(waiting[0]) is not None:
        waiting.pop(0)
    out = link.bytes_to_send(now)
    if out:
        sys.stdout.buffer.write(out)
