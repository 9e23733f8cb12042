"""Boards: microcontrollers that are devices of their own, and the gateway's side of the line to them.

1. This folder itself runs on the gateway, under CPython; `shared/` runs on both ends, `device/` on boards only.
2. A gateway carries a board's sealed messages and can read none of them (ADR 11).
3. Only `serial_link.py` imports pyserial.

Read `shared/` first, then `serial_link.py` (a port with a link on it), `bridge.py` (the agent's role that carries),
`usb.py` (which port is which board) and `flash.py` (how the firmware gets there).
"""
