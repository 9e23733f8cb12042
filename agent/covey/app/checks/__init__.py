"""A device's condition: status, metrics, `covey check` and the support bundle.

`status.py` collects everything once; `metrics.py` prints it as OpenMetrics, `documents.py` is its JSON. `findings.py`
defines a check, `local.py` lists the checks; `orders.py`, `telemetry.py`, `relays.py` (also those that ask the relay)
and `content.py` hold the checks of these subjects. `support_bundle.py` collects all of it without secrets.
"""
