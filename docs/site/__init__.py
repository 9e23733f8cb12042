"""The documentation as a site: `./dev docs`, from `mkdocs.yml`.

* `pages.py` writes the reference pages from the product: commands, settings, metrics, API, tables, errors.
* `hooks.py` gives these to MkDocs, and brings in the files outside docs/ that pages link to.
* `drawings.py`, `screenshots.py` and `recording.py` make the pictures in docs/images, which are committed.
"""
