"""What `covey check` looks at. `findings.py` says what a check is; `local.py` and `online.py` hold the checks."""
