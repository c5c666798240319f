"""Names of the options of PettingZoo environments that Palaestra reads itself."""

from palaestra.envs.spaces.option_names import NAMES

MAPPINGS = ("behaviors", "teams", "groups", "shared_reward")
"""Options that map agents."""
OWN_OPTIONS = (*MAPPINGS, *NAMES)
"""All options of ours; others go to the environment's constructor."""
