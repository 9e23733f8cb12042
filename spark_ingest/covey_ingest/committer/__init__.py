"""What turns the results of tasks into one commit: the tables of a location, their logs and files, and upkeep.

Read `tables.py` first, then `tables_log.py` with `delta_log.py`. `delta_files.py` merges and sorts files; `deleting.py`
removes a device's rows or old ones.
"""
