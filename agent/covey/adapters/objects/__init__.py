"""Where a vault lies: a directory, or an object store. Collector, commands and ingest use the same two classes.

1. A key is checked before it stands in a path or a request (`check_key`).
2. An object is stored whole or not at all, durably; what is read has a bound in bytes; only regular files are read.
3. What the disk or the store refuses is a `StorageError`, or one of its kinds. No library's own error leaves here.
4. Credentials come by the store's usual chain. None stands in settings, options, URLs or messages.
5. The library of object stores (`obstore`) is loaded when the first URL is opened.

To be read in this order: `folder`, `cloud`, and `location`, which takes the one or the other.
"""
