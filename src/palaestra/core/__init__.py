"""What everything else is made of; imports nothing else of ours.

`specs` says what a behavior sees and does, `timestep` has the tables that travel,
`errors` the exceptions, `registry` finds plug-ins, `settings` is the base of all
settings and `metrics` sums what an update measured.
"""
