"""When a group's episode is over: once nobody of it is left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def last_of_groups(
    ended: NDArray[np.bool_], living: NDArray[np.bool_], group: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Of each group that nobody is left of after these ends, the slot of the member who decided most, (G,).

    What that one got with its group is what the group earned: members that left early got a part of it only. All columns (S,);
    `living`: whose episodes were open before; `group`: that in which they played, -1 on their own.
    """
    slots = (ended & (group >= 0)).nonzero()[0]
    slots = slots[~np.isin(group[slots], group[living & ~ended])]
    slots = slots[np.lexsort((-length[slots], group[slots]))]
    return slots[np.concatenate([np.ones(min(len(slots), 1), bool), np.diff(group[slots]) != 0])]
