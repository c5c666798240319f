"""Unity builds and the Editor over ML-Agents' wire protocol.

`env` is the environment: it owns the copies of the game and shows them as one table a behavior. A `copy` is one game: its process,
its `server` and how far their conversation is. `decode` and `encode` are the only ones that see a message; `readers` and `table`
turn it into columns.
"""
