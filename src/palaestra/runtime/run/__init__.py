"""One run from its start to its end: `api` starts and ends it, `loop` is what it does, `run` holds what changes
meanwhile.
"""
