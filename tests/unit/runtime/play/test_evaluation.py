from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import settings
from tiny_envs import Bandit, Scripted, network_settings, slow_episodes, table

import palaestra
from palaestra.brains.model import Policy, load_policy
from palaestra.core.errors import PolicyError
from palaestra.envs.base import Env
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.critic_only.asymmetric import AsymmetricActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.onnx import export
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.play.evaluation import evaluate, model_brains
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.run_models import find_models, open_for


def policy_for(env: Env, behavior: str, folder: Path) -> Policy:
    env.reset(0)
    spec = env.behaviors[behavior]
    torch.manual_seed(0)
    export(ActorCritic(spec, network_settings()), spec, folder / f"{behavior}.onnx")
    return load_policy(folder / f"{behavior}.onnx", seed=0)


@pytest.mark.parametrize(
    "options",
    [
        {"slots": 3, "grows_at": 5},
        {"slots": 5, "steady": True},
        {"slots": 4, "masked": True},
        {"slots": 4, "losses": 0.1},
    ],
)
def test_episodes_have_the_returns_and_lengths_of_decisions_whatever_slots_do(options: dict[str, Any], tmp_path: Path):
    env = Scripted({"Walker": options})
    played = evaluate(env, {"Walker": policy_for(env, "Walker", tmp_path)}, 12)["Walker"]
    every = sorted((round(a + b, 4), n) for a, b, n in slow_episodes([step["Walker"] for step in env.tables]))
    found = sorted((round(float(r), 4), int(n)) for r, n in zip(played.returns, played.lengths, strict=True))
    assert len(found) == 12
    assert all(episode in every for episode in found)


def test_as_many_episodes_are_counted_as_asked_for(tmp_path: Path):
    env = Bandit(4, continuous=1)
    played = evaluate(env, {"Bandit": policy_for(env, "Bandit", tmp_path)}, 10)["Bandit"]
    assert played.lengths.tolist() == [1] * 10
    assert played.mean == pytest.approx(float(np.mean(played.returns)))


def test_a_behavior_that_appears_while_others_play_is_played_too(tmp_path: Path):
    env = Scripted({"Walker": {"slots": 2}, "Late": {"slots": 3}}, appears={"Late": 4})
    models = {name: policy_for(Scripted({name: {"slots": 2}}), name, tmp_path) for name in ("Walker", "Late")}
    played = evaluate(env, models, 20)
    assert {name: len(one.returns) for name, one in played.items()} == {"Walker": 20, "Late": 20}
    with pytest.raises(PolicyError, match=r"behavior 'Late', for which there is no model \(models: Walker\)"):
        evaluate(env, {"Walker": models["Walker"]}, 20)


def test_an_environment_may_begin_without_any_behavior(tmp_path: Path):
    env = Scripted({"Late": {"slots": 3}}, appears={"Late": 4})
    policy = policy_for(Scripted({"Late": {"slots": 3}}), "Late", tmp_path)
    told: list[int] = []
    assert len(evaluate(env, {"Late": policy}, 5, progress=told.append)["Late"].returns) == 5
    assert told[:3] == [0, 0, 0]


def test_episodes_that_are_lost_are_made_up_for_by_others(tmp_path: Path):
    env = Bandit(2, continuous=1)
    brains = model_brains(env, {"Bandit": policy_for(env, "Bandit", tmp_path)}, deterministic=True)
    players = Players(env, brains, lambda agents: 2)
    view = torch.zeros(2, 2)
    first = {"Bandit": table(view)}
    players.note(first)
    players.act(first)
    broken = {"Bandit": replace(table(view, reward=[7.0, 1.0], acting=[False, True]), lost=torch.tensor([True, False]))}
    players.note(broken)
    players.act(broken)
    ended = {"Bandit": table(view, reward=[9.0, 2.0], terminated=[1])}  # slot 0 is back, and its new episode counts
    players.note(ended)
    episodes = players.teams["Bandit", 0]
    assert episodes.returns == [3.0]
    assert not players.done
    players.act(ended)
    players.note({"Bandit": table(view, reward=[4.0, 5.0], terminated=[0, 1])})
    assert episodes.returns == [3.0, 4.0]
    assert episodes.lengths == [2, 1]
    assert players.done


def test_agents_of_areas_that_do_not_count_are_played_but_not_waited_for(tmp_path: Path):
    env = Bandit(2, continuous=1)
    brains = model_brains(env, {"Bandit": policy_for(env, "Bandit", tmp_path)}, deterministic=True)
    players = Players(env, brains, lambda agents: agents, areas=1)
    rooms = torch.arange(2)
    first = {"Bandit": replace(table(torch.zeros(2, 2)), area=rooms)}
    players.note(first)
    assert len(players.act(first)["Bandit"].continuous) == 2
    players.note({"Bandit": replace(table(torch.zeros(2, 2), reward=[7.0, 1.0], terminated=[0]), area=rooms)})
    assert players.teams["Bandit", 0].returns == [7.0]
    assert players.done


def test_a_behavior_without_a_model_is_named():
    with pytest.raises(
        PolicyError,
        match=r"'Bandit', .* 'palaestra run' plays .*, such as --brain 'Bandit=model:FILE\.onnx' or =random",
    ):
        evaluate(Bandit(2, branches=(2,)), {}, 1)


def test_a_run_of_default_settings_alone_has_its_models_found(tmp_path: Path):
    tree = settings("Basic", 200)
    result = palaestra.train(
        {"default_settings": tree["behaviors"]["Basic"]},
        env="Basic",
        results_dir=str(tmp_path),
        run_id="run",
        quiet=True,
    )
    assert find_models("run", tmp_path).files == {"Basic": result.models["Basic"]}


def test_a_run_is_played_with_the_parameters_it_was_trained_with(tmp_path: Path):
    tree = settings("Sorter", 200) | {"environment_parameters": {"num_tiles": 5}}
    palaestra.train(tree, env="Sorter", num_areas=2, results_dir=str(tmp_path), run_id="run", quiet=True)
    models = find_models("run", tmp_path)
    for env, most in ((None, 5), ("Sorter", 20)):  # one that is named has its own
        game = open_for(models, env, 100, 100)
        seen = game.reset(0)["Sorter"].obs[0]
        assert seen.any(2).sum(1).max() == most


def test_models_that_did_not_play_and_what_others_do_not_see_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    spec = make_env("Hallway", areas=1, options={"state": True}).behaviors["Hallway"]
    network = AsymmetricActorCritic(spec, NetworkSettings(hidden_units=8, critic_only=["truth"]))
    export(network, spec, tmp_path / "Hallway.onnx", for_unity=True)
    policy = load_policy(tmp_path / "Hallway.onnx")
    assert "unread ['truth']" in repr(policy)
    palaestra.evaluate({"Hallway": policy, "Late": policy}, env="Hallway", env_options={"state": True}, episodes=1)
    said = capsys.readouterr().err
    assert "Hallway: Hallway.onnx does not see truth\n" in said
    assert "not in these episodes, so not evaluated: Late\n" in said
