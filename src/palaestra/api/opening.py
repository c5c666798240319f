"""`palaestra.make` and `palaestra.load_policy`. The module imports neither torch nor Warp until an environment is
made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from palaestra.api.python_calls import python_call
from palaestra.brains.model import Policy
from palaestra.brains.model import load_policy as load_model
from palaestra.core.errors import PolicyError
from palaestra.core.files import MODEL_FILES
from palaestra.hub.hub_names import is_hub_name

if TYPE_CHECKING:
    from palaestra.envs.base import Env
    from palaestra.runtime.run.result import Result


@python_call
def make(name: str, *, areas: int | None = None, device: str = "cpu", **options: Any) -> Env:
    """Opens an environment with `areas` copies, or with its default number of copies.

    >>> import palaestra
    >>> env = palaestra.make("CartPole", areas=8)
    >>> env.num_areas
    8

    name: as for `palaestra.train(env=...)`: a built-in such as "3DBall", "gymnasium:ID", the file of a Unity build.
    areas: copies that are simulated together.
    device: device of the environment's tensors, such as "cuda". Further keywords are options of the environment itself,
    such as render_mode of a Gymnasium environment.

    Returns an `Env`, which steps many agents at once: see the guide to environments of your own. Raises EnvError.
    """
    from palaestra.runtime.environments.make import make_env

    return make_env(name, areas=areas, device=device, options=options)


@python_call
def load_policy(
    model: str | Path | Result,
    *,
    behavior: str | None = None,
    step: int | Literal["best"] | None = None,
    seed: int | None = None,
    results_dir: str | Path = "results",
) -> Policy:
    """Loads a trained policy for the CPU: a policy of Palaestra or of ML-Agents (ONNX of versions 2 and 3, Barracuda's
    `.nn`).

    >>> import numpy as np, palaestra
    >>> policy = palaestra.load_policy("results/pole/CartPole.onnx", seed=1)
    >>> action, state = policy.predict(np.zeros(4), deterministic=True)
    >>> action in (0, 1)
    True
    >>> palaestra.load_policy("pole").obs_shapes
    ((4,),)

    model: a model file, a run id, a run's folder, RUN@STEP, RUN@best, the `Result` of a training, or
        "hub:user/repository[/FILE.onnx][@REVISION]".
    behavior: the behavior to load, if the training has several.
    step: the model of this step, or "best": the one that `keep_best` kept; None: the newest.
    seed: with a seed, the same calls give the same actions; without a seed, each loaded policy draws others.
    results_dir: folder of all runs.

    Returns the `Policy`, which plays without torch. Raises PolicyError for a file that is missing or no policy,
    RunError for a run that is missing or has no model, and HubError for a model that cannot be downloaded.
    """
    if seed is not None and seed < 0:
        raise PolicyError(f"seed is {seed}; expected at least 0")
    given: Any = model
    is_named = isinstance(given, str | Path)
    if (not is_named and not hasattr(given, "run_id")) or not str(given).strip():
        raise PolicyError(f"{given!r:.80} is no model: expected a file, a run, or the Result of a training")
    word = str(given if is_named else given.folder)
    if not is_named and step is None:
        run, files = given.run_id, given.models
    elif step is None and (Path(word).is_file() or word.endswith(MODEL_FILES) or is_hub_name(word)):
        return load_model(word, seed=seed)
    else:
        from palaestra.runtime.play.run_models import find_models

        found = find_models(word, Path(results_dir), step=step)
        run, files = found.run, found.files
    chosen = [file for name, file in files.items() if behavior in (None, name)]
    if len(chosen) != 1:
        several = (
            f"{len(chosen)} models: choose one with --behavior" if chosen else f"no model of behavior '{behavior}'"
        )
        raise PolicyError(f"the run '{run}' has {several} (it has: {', '.join(files) or 'none'})")
    return load_model(chosen[0], seed=seed)
