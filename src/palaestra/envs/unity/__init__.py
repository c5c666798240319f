"""Unity builds and the Editor as environments, over ML-Agents' wire protocol.

`env` joins all copies of the game and shows their agents as one table for each behavior. `game_instance` is one copy of
the game: its process, its server and the state of its connection. `table` assigns agents to slots.
"""
