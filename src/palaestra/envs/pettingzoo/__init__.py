"""PettingZoo environments: `opening` makes the environments, `turns` steps one of them, `roster` assigns agents to
behaviors, `env` is the `Env`."""
