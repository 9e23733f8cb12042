"""Doors send readings on to other systems. A door sends a batch, or raises `DoorError`; a repeated batch has the same
id.

1. A secret is in a file, is read when needed, and is sent only over TLS or to this machine.
2. A device's label, name, unit or text appears only in values of a document, never in a header or an address.
3. Of a receiver's answer only the status is read, and with OTLP how many points were rejected.

`kinds.py` opens an entry of the configuration.
"""
