"""Sensors: what a configuration names, and what every host has.

1. Each module is a kind with a function `from_entry`; `config/sensors.py` lists the kinds, and a module is loaded only
   if a configuration names its kind.
2. A sensor returns readings and counts what it drops, or raises `SensorError`: then it is closed, and opened again
   later.

Read `kinds.py` (opens an entry) and `worker.py` (the thread that each sensor has), then a kind: `program.py`,
`modbus.py`, `mqtt_topics.py` with `topic_values.py`, and those that read files of the kernel by `system_folders.py`:
`one_wire.py`, `iio.py`, `hwmon.py`. `host.py` and `firmware.py` measure this machine; nobody configures them.
"""
