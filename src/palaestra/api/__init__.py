"""The functions that `import palaestra` offers, one module for each: what `cli` is for the command line."""
