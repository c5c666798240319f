"""The functions that `import palaestra` offers, one module for each function; `cli` has the same for the command
line."""
