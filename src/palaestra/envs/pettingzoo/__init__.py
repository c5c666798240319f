"""PettingZoo environments: `opening` makes them, `turns` steps one, `roster` sorts agents, `env` is the `Env`."""
