"""Command line: `main` finds the command; each is a module with `add_arguments` and `main`, imported when needed."""
