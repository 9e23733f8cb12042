"""The fleet as one of its devices knows it: the table, the page and the alerts.

Read `fleet.py` first, then `devices.py`, `orders.py` and `troubles.py`, from which it is composed, and `documents.py`.
`keeping.py` keeps the table of a large fleet, `kept_fleet.py` reads it; `dashboard.py` and `page.py` serve the page;
`alerts.py` decides what is worth an alert, and `alert_watch.py` sends it.
`device_story.py` tells what happened to one device.
"""
