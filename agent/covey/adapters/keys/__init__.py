"""Secrets in files of mode 0600, each replaced whole.

Read `key_file.py` first, then `passphrase.py`, `seals.py`, `identity_file.py`, `noise_key_file.py`,
`vault_key_file.py` and `relay_credential.py`.
"""
