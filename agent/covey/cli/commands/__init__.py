"""One module for each command: `covey vault` is `vault.py`. `add_arguments` declares its options; `run`, or the
function of an action, executes it and returns the exit code. `covey.cli.main` loads only the module of the command."""
