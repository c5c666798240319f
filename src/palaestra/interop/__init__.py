"""Our environments for other trainers: the interfaces of Gymnasium, PettingZoo, Stable-Baselines3 and rsl_rl.

`palaestra.gymnasium` gives Gymnasium their ids, `palaestra.pettingzoo` is the public module for `parallel_env`.
`named_agents` follows single agents through the tables of an environment, for everything but `vector_env`, which passes
whole tables on.
"""
