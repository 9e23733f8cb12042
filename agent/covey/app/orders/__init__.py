"""Orders of operators: settings, commands and releases, given here or obeyed here.

Giving: `operators.py` (who may), `setting_orders.py`, `commands.py`, `releases.py`, and `command_reports.py` and
`release_reports.py` for the results. Obeying: `setting_role.py` with `ordered_settings.py` and `owner_rules.py`;
`command_role.py` with `ordered_actions.py`, `owners_actions.py`, `action_programs.py` and `staged_files.py`.
`kept_orders.py` caches what operators want; `attempts.py` records orders by devices without authority.
"""
