"""Where readings are sent on to. A door takes a batch, or raises `DoorError`; what it sends twice has the same id.

1. A secret stands in a file, is read when it is needed, and goes over TLS alone, or to this machine.
2. A label, name, unit or text of a device's goes into the values of a document, never into a header or an address.
3. What a receiver answers is read no further than its status, and where OTLP has it how many points were rejected.

`kinds.py` opens what an entry of the configuration says.
"""
