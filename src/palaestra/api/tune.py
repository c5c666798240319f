"""Searches settings with many trainings, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.api.python_calls import python_call
from palaestra.api.run_names import new_name
from palaestra.api.training_options import (
    SettingOptions,
    check_config,
    given_env,
    overrides_of,
    plain,
    settings_of,
)
from palaestra.core.display import in_notebook, print_now
from palaestra.core.errors import CallError
from palaestra.core.wording.voice import voiced
from palaestra.runtime.logging.console import NotebookBlock
from palaestra.runtime.run.run_settings import Config
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.tune.study import StudyFolder
from palaestra.runtime.tune.tuning import SearchRequest, TuneResult, run_search

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TuneOptions(SettingOptions, total=False):
    """Keywords of `palaestra.tune`, except `config`, `env`, `study` and `search`: keys of `search`, and settings."""

    trials: int
    jobs: int
    seeds: int
    method: str
    objectives: str | Sequence[str]
    bar: float
    pruner: str
    storage: str


@python_call
def tune(
    config: Config = None,
    *,
    env: str | None = None,
    study: str | None = None,
    search: str | Path | Mapping[str, Any] | None = None,
    quiet: bool = False,
    **options: Unpack[TuneOptions],
) -> TuneResult:
    """Searches good settings with many short trainings.

    >>> import palaestra
    >>> found = palaestra.tune(env="gymnasium:CartPole-v1", trials=20, jobs=2, max_steps=50_000)
    >>> result = palaestra.train(found.best, run_id="tuned")

    config: a settings file or dictionary to start from, with a block `search` or without; None: the file that is
        shipped for the environment, or settings that fit its spaces.
    env: name of the environment, as for `palaestra.train`.
    study: name of the search and of its folder; None: the environment's name and the time.
    search: a block `search` as a dictionary, {"space": {"hyperparameters.beta": {"log": [1e-4, 1e-2]}}}, a file with
        this block, or "ppo", "sac" or "poca" for the search space that is shipped with Palaestra.
    trials, jobs, seeds, method, objectives, bar, pruner, storage: keys of `search`: number of trainings, how many of
        them run at once, seeds of each, the search method, the results to optimize, the reward to reach, ...
    resume: continue the study, or join other processes that run it; `config` may be left out then.
    quiet: print nothing.
    Further keywords are the settings that `palaestra.train` takes, and further keys of `search`.

    Returns the best trial. Raises PalaestraError. Ctrl-C saves the trials that run, and raises KeyboardInterrupt.
    """
    given = dict(options)
    settings, trust = settings_of(given.pop("settings", None)), bool(given.pop("trust", False))
    place = {key: given.pop(key) for key in ("results_dir", "resume", "force") if key in given}
    block = {key: plain(given.pop(key)) for key in list(given) if key in SearchSettings.model_fields}
    overrides = overrides_of(tune, given)
    check_config(tune, config)
    found = given_env(env, config, overrides, settings)
    if found.env is not None:
        raise CallError(
            "env is an object, and each trial opens its own: give its name, such as gymnasium:CartPole-v1, or "
            "python:module:function for a function of yours"
        )
    if block:
        overrides["search"] = {key: value for key, value in block.items() if value is not None}
    resume = bool(place.get("resume"))
    results = Path(str(place.get("results_dir") or "results"))
    request = SearchRequest(
        StudyFolder(results, study or ("tune" if resume else new_name(results, f"{found.label}-tune"))),
        Path(config) if isinstance(config, str) else config,
        overrides,
        settings,
        search,
        resume=resume,
        force=bool(place.get("force")),
        trust=trust,
    )
    lines = NotebookBlock()  # of a notebook, while it lasts: the result shows itself

    def show(text: str) -> None:
        if in_notebook():
            lines.add(voiced(text), due=True)
        else:
            print_now(voiced(text))

    result = run_search(request, (lambda _: None) if quiet else show)
    lines.clear()
    return result
