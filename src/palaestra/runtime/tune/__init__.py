"""Searches settings (`palaestra tune`): trials of a study, each a separate training.

`tuning` is the loop. `study_plan` turns values of a trial into settings, `study` chooses the next trial, `trial_run`
follows a trial, `trial_process` is its process, `curves` and `objectives` compute its score.
"""
