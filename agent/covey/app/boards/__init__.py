"""Microcontrollers behind this device.

`boards.py` is what a person does with them (find, flash, enrol, watch), `serial_ports.py` finds their ports,
`bridge_role.py` connects them to the agent, `orders.py` hands them the orders of operators. `unnamed_boards.py` notes
boards that cannot say who they are; `documents.py` has their JSON.
"""
