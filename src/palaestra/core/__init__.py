"""Building blocks that every other package uses; `core` imports no other package.

`specs` describes observations and actions, `timestep` defines the tables that environments, policies and buffers
exchange, `errors` the exceptions, `plugins` loads users' code, `settings` is the base class of all settings and
`metrics` averages what an update measured.
"""
