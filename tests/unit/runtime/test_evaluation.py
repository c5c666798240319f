from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_envs import Bandit, Scripted, network_settings, slow_episodes

from palaestra.brains.model import Policy, load_policy
from palaestra.core.errors import PolicyError
from palaestra.envs.base import Env
from palaestra.export.onnx import export
from palaestra.models.actor_critic import ActorCritic
from palaestra.runtime.evaluation import evaluate


def policy_for(env: Env, behavior: str, folder: Path) -> Policy:
    env.reset(0)
    spec = env.behaviors[behavior]
    torch.manual_seed(0)
    export(ActorCritic(spec, network_settings()), spec, folder / f"{behavior}.onnx")
    return load_policy(folder / f"{behavior}.onnx", seed=0)


@pytest.mark.parametrize("options", [{"slots": 3, "grows_at": 5}, {"slots": 5, "steady": True}, {"slots": 4, "masked": True}])
def test_episodes_have_the_returns_and_lengths_of_decisions_whatever_slots_do(options: dict[str, int], tmp_path: Path):
    env = Scripted({"Walker": options})
    played = evaluate(env, {"Walker": policy_for(env, "Walker", tmp_path)}, 12)["Walker"]
    every = sorted((round(own + group, 4), length) for own, group, length in slow_episodes([step["Walker"] for step in env.tables]))
    found = sorted((round(float(value), 4), int(length)) for value, length in zip(played.returns, played.lengths, strict=True))
    assert len(found) == 12
    assert all(episode in every for episode in found)


def test_as_many_episodes_are_counted_as_asked_for(tmp_path: Path):
    env = Bandit(4, continuous=1)
    played = evaluate(env, {"Bandit": policy_for(env, "Bandit", tmp_path)}, 10)["Bandit"]
    assert played.lengths.tolist() == [1] * 10
    assert played.mean == pytest.approx(float(np.mean(played.returns)))


def test_a_behavior_without_a_model_is_named():
    with pytest.raises(PolicyError, match="'Bandit'"):
        evaluate(Bandit(2, branches=(2,)), {}, 1)
