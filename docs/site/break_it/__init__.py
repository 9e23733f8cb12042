"""A page on which visitors try to break Covey: its core, store and collector run in their browser.

`build.py` packs it, `page.html` shows it, `world.py` is what runs there, `modules.py` what the browser lacks.
"""
