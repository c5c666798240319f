"""Searches settings (`palaestra tune`): trials of a study, each a training of its own.

`tuning` is the loop. `study_plan` turns values of a trial into settings, `study` says which trial comes next,
`trial_run` follows one, `trial_process` is its process, `curves` and `objectives` say what it is worth.
"""
