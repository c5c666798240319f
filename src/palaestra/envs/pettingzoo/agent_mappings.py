"""Names of the options of PettingZoo environments that Palaestra reads itself."""

MAPPINGS = ("behaviors", "teams", "groups", "shared_reward")
"""Options that map agents; all others go to the environment's constructor."""
