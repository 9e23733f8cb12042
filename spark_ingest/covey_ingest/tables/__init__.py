"""One module for each table or state that a commit keeps: devices, gaps, members, messages, clocks, rollups, orders.

Each computes its next rows from what a micro-batch brought; none of them commits.
"""
