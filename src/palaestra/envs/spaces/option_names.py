"""Names of options, and of entries of an environment's metadata, that state facts which its spaces do not show; see
`conventions`.

They are in a separate module so that they can be read without importing Gymnasium.
"""

MAX_ELEMENTS = "max_elements"
ALLOW_ALL = "missing_mask_allows_all"
LEAVE_OUT = "leave_out"
MASK_KEY = "mask_key"
PARAMETERS = "parameters"
"""Maps environment parameters to the members of the environment that take them."""
NAMES = (MAX_ELEMENTS, ALLOW_ALL, LEAVE_OUT, MASK_KEY, PARAMETERS)
"""Names of all options."""
OF_RUN = "environment_parameters"
"""Option in which a run passes the names of the parameters that it sets."""
NO_OPTION = f"env_options.{OF_RUN} is no option: {OF_RUN} is a separate section, next to env_settings"
"""The error if a user gives this option."""
MAPPINGS = ("behaviors", "teams", "groups", "shared_reward")
"""Options of PettingZoo environments that are maps by agent."""
STATE = "state"
"""Option of PettingZoo environments with which every agent also observes what `state()` returns."""
ZOO_OPTIONS = (*MAPPINGS, STATE, *NAMES)
"""All options of PettingZoo environments that Palaestra reads; others go to the environment's constructor."""
