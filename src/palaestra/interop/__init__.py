"""Built-in environments for other trainers: the interfaces of Gymnasium, PettingZoo, Stable-Baselines3 and rsl_rl.

`palaestra.gymnasium` registers their ids with Gymnasium, `palaestra.pettingzoo` is the public module for
`parallel_env`. `named_agents` follows single agents through the tables of an environment, for all interfaces but
`vector_env`, which passes on whole tables.
"""
