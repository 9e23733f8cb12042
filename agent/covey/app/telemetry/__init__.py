"""Readings from sensor to vault, and from the vault to people and to other systems.

In the order of a reading: `sensors.py`, `sensor_roles.py` and `attached_sensors.py` measure; `publishing.py` and
`publisher.py` batch; `collector.py` (set up by `collecting.py`) lands batches in the vault. `vault.py` is what a person
does with a vault; `node_vault.py`, `node_keys.py`, `compactor.py`, `erasing.py`, `rewriting.py`, `recall.py`,
`restored_vault.py`, `torn_manifest.py` and `vault_survey.py` keep one in order. `landed_readings.py` and
`newest_readings.py` read it; `doors.py` with `door_runner.py` sends readings on to other systems.
`landed_batches.py` reads the vault batch by batch, `curves.py` the course of one series; `landed_memberships.py` stores
group manifests next to the readings; `documents.py` has the JSON.
"""
