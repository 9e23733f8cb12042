"""How this device is: status, metrics, `covey check` and the support bundle.

`status.py` looks everything up once; `metrics.py` prints it as OpenMetrics, `documents.py` is its JSON. `findings.py`
says what a check is, `local.py` lists the checks, `online.py` asks the relay; `orders.py`, `telemetry.py`, `relays.py`
and `content.py` hold the checks of these subjects. `support_bundle.py` collects all of it without secrets.
"""
