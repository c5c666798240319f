"""Converts settings files of ML-Agents before release 3, and of releases 3 to 5, into one current file.

`old_file` reads a file; `new_tree` collects the result and remarks. `sections` finds a behavior's values; `blocks` and
`reward_signals` convert them. `curricula` and `old_samplers` convert environment parameters; `defaults` restores
inheritance. `upgrading` calls all of them and checks the result.
"""

from palaestra.runtime.upgrade.upgrading import Upgraded, upgrade

__all__ = ["Upgraded", "upgrade"]
