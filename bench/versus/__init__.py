"""`./dev versus`: systems that promise to lose nothing, on one rig, under the same faults, counted by one ledger.

Read `ledger.py` (what is counted), `system.py` (what a system must offer), `faults.py` (what happens to it), `rig.py`
(one system under one fault). `systems/` has each system, and `configurations/` what it was configured with.
"""
