"""The state file as a whole: who may open it, copies of it, the disk space reserved for it, and damage.

`state_file.py` opens it. `copy_mark.py` and `high_water.py` recognise a copy or an older state that was restored.
A damaged file: `inspection.py` finds what can be read, `salvage.py` saves that into a new file.
"""
