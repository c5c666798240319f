"""Puts a behavior together with the opponents that it plays against."""

from __future__ import annotations

from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.envs.base import Env
from palaestra.runtime.contender import Contender
from palaestra.runtime.learner import Learner
from palaestra.runtime.rivals import Rivals
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.snapshots import SnapshotFiles
from palaestra.runtime.teaching import Asked, teacher_part

UNSTEADY = "self-play with SAC learns from a replay of games against opponents that are long gone; PPO and POCA do better as a rule"


def contend(learner: Learner, env: Env, settings: RunSettings, files: SnapshotFiles) -> Contender:
    """Has a behavior's slots shared by its policy and its opponents. Raises ConfigError, EnvError."""
    own = learner.settings.self_play
    assert own is not None
    trainer, device, seed = learner.trainer, env.device, settings.env_settings.seed
    fixed = [_asked(text, learner, env, settings) for text in own.opponents]
    rivals = Rivals(trainer.policy, trainer.network, lambda: trainer.make_network(learner.spec, learner.settings).to(device), fixed)
    learner.seat.policy, learner.seat.shared = rivals, True
    return Contender(learner, rivals, own, seed, files)


def _asked(text: str, learner: Learner, env: Env, settings: RunSettings) -> Asked:
    try:
        part = teacher_part(text)
    except ConfigError as error:
        raise ConfigError(f"behavior '{learner.name}': self_play.opponents: {str(error).replace('teacher', 'opponent')}") from error
    from palaestra.runtime.cast import Cast  # brings onnxruntime, which most runs never need

    results = Path(settings.checkpoint_settings.results_dir)
    cast = Cast([part], env, seed=settings.env_settings.seed, deterministic=False, results=results)
    return Asked(cast.brain(learner.name, 0), learner.spec.action)
