"""The firmware of a board, in MicroPython's dialect. This file itself stays on the host.

1. `core.py` is the whole board without its hardware: bytes and `now` in, bytes out. Hardware access is in
   `hardware.py`, `uart.py`, `ports.py`, `storage.py` and `sensors.py`.
2. The identity never leaves the board, and everything is sealed for the collector before the gateway sees it.
3. Unacknowledged messages are in RAM: a bounded `outbox.py`, which a restart forgets. Those that no gateway has are
   noted on flash (`losses.py`), and the next incarnation reports them.

**Rules implemented twice.** `outbox.py` and `link_keys.py` keep the same promises of docs/protocol/ (sections 4, 8 and
18) as `send_window.py` and `link_keys.py` in the agent's core/link, in other code. They are separate on purpose. The
agent's serve many recipients from a store, with windows, rollback and types; a board has one collector, a list in RAM
and a heap of 24 to 64 KiB, and MicroPython has neither dataclasses nor enumerations. The bytes must be the same, to
which tests/vectors hold both sides, and so must a link key's bounds, which a unit test compares with the agent's
limits. If you change a rule, change it in both places.

Read `core.py`, `outbox.py`, `inbox.py` and `received.py` (messages from the collector), `link_keys.py`, then the rest.
"""
