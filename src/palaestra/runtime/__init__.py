"""Training runs: the loop (`run`), collecting, self-play, curricula, playing with brains, environments, logging,
storage and settings.
"""
