"""Makes the trainer of a behavior, in this process or in a separate one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError, DemoError, ExportError, PluginError
from palaestra.core.files import scratch_in
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.models.custom import OwnModule
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.amp import clips_of, remark_of
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.rewards.settings import AMPSettings
from palaestra.runtime.collect.random_streams import reseed
from palaestra.runtime.collect.trainer_process import Messages, TrainerProcess
from palaestra.runtime.settings import BehaviorSettings
from palaestra.trainers.base import Trainer, make_trainer


class TrainerHere:
    """Gives a trainer in this process the interface of `TrainerProcess`."""

    waiting_seconds = 0.0
    learning_seconds: float | None = None
    busy = False

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    @property
    def learned(self) -> Mapping[str, Tensor]:
        """The newest weights."""
        return dict(self._trainer.network.named_parameters())

    def reseed(self, seed: int) -> None:
        """Gives the trainer's streams of random numbers new seeds."""
        reseed(self._trainer, seed)

    def take_prior(self, replays: Sequence[Mapping[str, Any]], run: str) -> None:
        """Gives a trainer with prior data the replays that the ranks of an earlier run saved."""
        cast(Any, self._trainer).prior.take(replays, run)

    def newest_network(self) -> Trunk:
        """Returns the trainer's network, in which every update takes effect at once."""
        return self._trainer.network

    def finish(self) -> Metrics:
        """Returns at once: no update is running."""
        return Metrics()

    def close(self) -> None:
        """Has no process to end."""

    def kill(self) -> None:
        """Has no process to end."""


def trainer_of(
    name: str,
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: torch.device,
    seed: int,
    scratch: Path | None,
    group: RankGroup,
    *,
    inference: bool,
) -> tuple[Trainer | TrainerProcess, TrainerHere | TrainerProcess, Messages]:
    """Returns a behavior's trainer, its process, and messages about its demonstrations. Raises ConfigError,
    PluginError, ExportError, DemoError."""
    try:
        if settings.threaded and not inference:
            must_be_importable(settings)
            process = TrainerProcess(name, spec, settings, device, seed, scratch, trainer_and_messages, group)
            return process, process, process.found
        trainer, found = trainer_and_messages(spec, settings, device, seed, scratch, group, inference=inference)
        if any(isinstance(module, OwnModule) for module in trainer.network.modules()):
            from palaestra.onnx_export.custom import check_exportable

            check_exportable(trainer.network)  # better now than after an hour of training
    except (ConfigError, PluginError, ExportError, DemoError) as error:
        raise type(error)(f"behavior '{name}': {error}") from error
    return trainer, TrainerHere(trainer), found


def must_be_importable(settings: BehaviorSettings) -> None:
    """Raises ConfigError for a trainer that a separate process could not import."""
    module, _, name = settings.trainer_type.partition(":")
    if module == "__main__":
        raise ConfigError(
            f"threaded: true learns in a separate process, which cannot import {name} from a notebook or script: "
            f"save it in a file, such as mine.py, and name it mine:{name}, or set threaded to false"
        )


def trainer_and_messages(
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: torch.device,
    seed: int,
    scratch: Path | None,
    group: RankGroup = ALONE,
    *,
    inference: bool = False,
) -> tuple[Trainer, Messages]:
    """Returns a behavior's trainer, and messages about its demonstrations and clips. Raises ConfigError, PluginError,
    DemoError. `scratch`: the folder for demonstrations that are too large for memory; None: the system's folder for
    temporary files."""
    gpus = [device] if device.type == "cuda" else []
    with scratch_in(scratch), torch.random.fork_rng(gpus):  # the program's own random numbers go on as they were
        trainer = make_trainer(spec, settings, device, seed, group)
        found = Messages([], []) if inference else _found(spec, trainer.network.spec, settings, device)
    return trainer, found


def _found(spec: BehaviorSpec, policys: BehaviorSpec, settings: BehaviorSettings, device: torch.device) -> Messages:
    """Returns messages about the demonstrations and other data that the trainer has loaded. `policys`: the spec of its
    policy, which may see less than a replay holds."""
    priors = [one for one in settings.reward_signals.values() if isinstance(one, AMPSettings)]
    clips = [clips_of(prior, policys, device) for prior in priors]
    demonstrated = [load_demonstrations(path, policys, device) for path in _demo_paths(settings)]
    prior = getattr(settings.hyperparameters, "prior_data", None)
    replayed = [load_demonstrations(path, spec, device) for path in ([] if prior is None else prior.sources)]
    read = [*demonstrated, *replayed, *clips]
    return Messages(list(map(remark_of, priors, clips)), list(dict.fromkeys(x for each in read for x in each.warnings)))


def _demo_paths(settings: BehaviorSettings) -> Iterator[str | Sequence[str]]:
    learners = (*settings.reward_signals.values(), settings.behavioral_cloning, settings.hyperparameters)
    yield from (path for one in learners if (path := getattr(one, "demo_path", None)) is not None)
