"""Command line: `main` finds the command; each command is a module with `add_arguments` and `main`, imported when
needed."""
