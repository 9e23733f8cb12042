"""The firmware of a board, in MicroPython's dialect. This file itself stays on the host.

1. `core.py` is the whole board without its hardware: bytes and `now` in, bytes out. What touches hardware is in
   `hardware.py`, `uart.py`, `ports.py`, `storage.py` and `sensors.py`.
2. The identity never leaves the board, and everything is sealed for the collector before the gateway sees it.
3. What is not yet acknowledged lies in RAM: a bounded `outbox.py`, which a restart forgets. Which of it no gateway had
   taken is on flash (`losses.py`), and the next life admits it.

**Rules that stand twice.** `outbox.py` and `link_keys.py` keep the same promises of docs/protocol/ (sections 4, 8 and
18) as `send_window.py` and `link_keys.py` in the agent's core/link, in other code. They are not shared on purpose.
The agent's serve many recipients out of a store, with windows, rollback and types; a board has one collector, a list
in RAM and a heap of 24 to 64 KiB, and MicroPython has neither dataclasses nor enumerations. What must be the same is
the bytes, which tests/vectors hold both sides to, and a link key's bounds, which a unit test compares with the
agent's limits. Whoever changes a rule changes it in both places.

Read `core.py`, `outbox.py`, `inbox.py` and `received.py` (what comes from the collector), `link_keys.py`, then the rest.
"""
