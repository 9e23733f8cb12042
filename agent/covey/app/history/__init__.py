"""What a group says: reading its history, writing to it, proving it, and deleting what a checkpoint covers.

Read `history.py` first (entries in their order), then `writing.py`. `pages.py` reads long histories in windows,
`files.py` carries them without a network, `proof.py` judges everything again, `sessions.py` announces maintenance
sessions. `checkpoints.py` and `forgetting.py` are the commands; `roles.py` has the roles that sign checkpoints and
delete local history. `documents.py` has the JSON.
"""
