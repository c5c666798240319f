"""Settings files of ML-Agents before release 3, and between it and release 6, as one current file.

`old_file` reads one and `report` gathers what is to be said. `sections` finds a behavior's values and `blocks` sorts them, with
`signals` for its rewards; `curricula` and `samplers` become environment parameters; `defaults` lets blocks inherit again;
`checking` holds the result against the settings' classes and `writing` makes it a file. `upgrading` joins them.
"""

from palaestra.runtime.upgrade.upgrading import Upgraded, upgrade

__all__ = ["Upgraded", "upgrade"]
