"""Damage any file of an agent, hub, vault or table, and judge what becomes of it."""
