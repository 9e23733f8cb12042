"""Microcontrollers behind this device.

`boards.py` is what a person does with them (find, flash, enrol, watch), `serial_ports.py` finds their ports,
`bridge_role.py` connects them to the agent, `orders.py` and `order_carrier.py` hand them the orders of operators.
"""
