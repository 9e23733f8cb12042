"""How this device is: status, metrics, `covey check` and the support bundle.

`status.py` looks everything up once; `metrics.py` and `metrics_file.py` print it as OpenMetrics, `documents.py` is its
JSON. `findings.py` says what a check is, `local.py` lists the checks, `online.py` asks the relay; the other files hold
the checks of one subject each. `support_bundle.py` collects all of it without secrets.
"""
