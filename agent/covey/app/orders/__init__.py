"""Orders of operators: settings, commands and releases, given here or obeyed here.

Giving: `operators.py` (who may), `setting_orders.py`, `commands.py`, `releases.py`, and `command_reports.py` and
`release_reports.py` for the results; `fleet.py` and `plans.py` do so in several groups at once. Obeying:
`setting_role.py` with `owner_rules.py`; `command_role.py` with `pinned_commands.py`, `ordered_actions.py`,
`owners_actions.py` and `action_programs.py`. `kept_orders.py` caches what operators want; `attempts.py` records orders
by devices without authority. `action_service.py` runs actions as root where `covey-action@.service` is enabled,
`installing.py` has the installers that Covey brings, `program_settings.py` gives programs their settings;
`documents.py` has the JSON.
"""
