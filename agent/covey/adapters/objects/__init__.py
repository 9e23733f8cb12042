"""A vault's place: a directory, or an object store. Collector, commands and ingest use the same two classes.

1. A key is checked before it is used in a path or a request (`check_key`).
2. An object is stored whole or not at all, durably; reads are bounded in bytes; only regular files are read.
3. Refusals by the disk or the store are `StorageError`, or one of its kinds. No library error leaves here.
4. Credentials come from the store's usual chain. None appears in settings, options, URLs or messages.
5. The library for object stores (`obstore`) is loaded when the first URL is opened.

Read `folder`, `cloud`, and `location`, which chooses between the two.
"""
