"""Starts a behavior from the network of another run: `init_path`, else `--initialize-from`."""

from __future__ import annotations

from collections.abc import Callable

from palaestra.core.errors import PalaestraError
from palaestra.parallel.ranks import Group
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import CheckpointSettings
from palaestra.runtime.storage.origins import find_origin
from palaestra.runtime.storage.run_folder import RunFolder, origin_folder


def initialize(
    learner: Learner,
    chosen: CheckpointSettings,
    folder: RunFolder,
    group: Group,
    info: Callable[[str], object],
    late: Callable[[str], object] | None = None,
) -> None:
    """Loads a behavior's first network when it appears, if the settings name one. Raises RunError or ConfigError.

    `late`: warns of what would be an error, in a run that goes on. A rank on a machine without the files gets rank 0's
    network when the ranks first learn together.
    """
    path = learner.settings.init_path
    named = chosen.initialize_from if not chosen.resume else None
    if path is None and named is None:
        return
    try:
        origin = None if named is None else origin_folder(folder.results, named)
        if origin is not None:
            origin.must_exist("initialize from it")
        found = find_origin(learner.name, path, origin)
        state, whole = found.state(learner.name, learner.trainer.network, list(learner.settings.reward_signals))
        whole = learner.initialize(state, found.place) and whole
    except PalaestraError as error:
        if not group.leads:
            return
        if late is None:
            raise
        late(f"'{learner.name}' begins with random weights: {error}")
        return
    anew = "" if whole else "; its values begin anew, since its reward signals or its trainer are others"
    info(f"Initialized '{learner.name}' from {found.place}{anew}")
