"""PettingZoo environments: `opening` finds and makes them, `turns` steps one, `roster` sorts agents into behaviors,
`env` is the `Env`.
"""
