"""Run Home Assistant with its MQTT integration: `home_assistant.py FOLDER PORT BROKER PASSWORD`, in its own Python.

It prints a long-lived token of an administrator once it runs. Nothing is installed, and no cloud is asked.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from homeassistant import bootstrap, config_entries, loader
from homeassistant.core import HomeAssistant

_USER = "covey"


async def _run(folder: str, port: str, broker: str, password: str) -> None:
    (Path(folder) / "configuration.yaml").touch()
    home = HomeAssistant(folder)
    home.config.skip_pip = True
    loader.async_setup(home)
    home.config_entries = config_entries.ConfigEntries(home, {})
    configuration = {
        "homeassistant": {"name": "Home", "unit_system": "metric", "time_zone": "UTC"},
        "http": {"server_host": "127.0.0.1", "server_port": int(port)},
        "recorder": {},
        "history": {},
        "websocket_api": {},
        "config": {},
    }
    assert await bootstrap.async_from_config_dict(configuration, home) is not None
    if not home.config_entries.async_entries("mqtt"):
        url = urlsplit(broker)
        account = {"broker": url.hostname, "port": url.port, "username": url.username, "password": password}
        form = await home.config_entries.flow.async_init("mqtt", context={"source": "user"})
        made = await home.config_entries.flow.async_configure(form["flow_id"], account)
        assert made["type"] == "create_entry", made
    users = {user.name: user for user in await home.auth.async_get_users()}
    user = users.get(_USER) or await home.auth.async_create_user(_USER, group_ids=["system-admin"])
    refreshing = await home.auth.async_create_refresh_token(
        user,
        client_name=f"door {len(user.refresh_tokens)}",
        token_type="long_lived_access_token",
        access_token_expiration=timedelta(days=365),
    )
    await home.async_start()
    print(home.auth.async_create_access_token(refreshing), flush=True)
    await asyncio.Event().wait()


logging.basicConfig(level=logging.WARNING)
asyncio.run(_run(*sys.argv[1:]))
