"""A device's condition: status, metrics, `covey check` and the support bundle.

`status.py` collects everything once; `metrics.py` prints it as OpenMetrics, `documents.py` is its JSON. `findings.py`
defines a check, `examining.py` lists and runs the checks; they are in the file of their subject: `machine.py`,
`groups.py`, `messages.py`, `orders.py`, `telemetry.py` and `relays.py` (also those that ask the relay).
`support_bundle.py` collects all of it without secrets.
"""
