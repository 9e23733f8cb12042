"""Relays and mailboxes as a person manages them.

`relay_settings.py` sets which relays a device uses; `serving_relay.py` and `relay_server.py` run one on this machine;
`broker_access.py` lets devices into a broker and examines it. `mailbox.py` is what a person does with mailboxes,
`mailbox_role.py` has the roles that serve one. `export_files.py` carries envelopes in files where no network reaches.
`documents.py` has the JSON of outbox and mailboxes.
"""
