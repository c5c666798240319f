"""Converts settings files of ML-Agents before release 3, and between it and release 6, into one current file.

`old_file` reads a file and `new_tree` gathers the result and the remarks. `sections` finds a behavior's values and `blocks` sorts them,
with `reward_signals`; `curricula` and `old_samplers` become environment parameters; `defaults` restores inheritance. `upgrading` joins them
and checks the result.
"""

from palaestra.runtime.upgrade.upgrading import Upgraded, upgrade

__all__ = ["Upgraded", "upgrade"]
