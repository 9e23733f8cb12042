"""Everything that touches the world, without a rule of the protocol. Each library has one importer here.

    sqlite        durable state in one file                  mqtt      relays, by paho-mqtt
    keys          secrets in files                           broker    a broker's accounts, and its examination
    objects       a vault in a folder or object store        http      the HTTP server of the three below
    sensors       sensors of every kind                      local_api  programs on this machine
    doors         other systems that get readings            lan       files to devices on one network

Files here by subject: `state_folder.py` and `configuration_files.py` (one device's folder), `files.py` (whole after a
power cut), `clock.py`, `systemd.py` and `journal.py` (the service manager); `content_files.py` and its neighbours
(sealed files); `programs.py` and `unit_programs.py` (actions), `file_installer.py` and `slot_installer.py` (updates);
`alert_targets.py` and `page_server.py` (people).
"""
