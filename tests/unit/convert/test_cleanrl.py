"""Agents as CleanRL's scripts build them, against our conversion of their state_dicts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import palaestra
from palaestra.convert import ConvertOptions, convert
from palaestra.core.errors import ConfigError, ExportError

ROWS = 30


def mlp(sizes: tuple[int, ...], between: type[nn.Module]) -> nn.Sequential:
    layers = [part for i, o in pairwise(sizes) for part in (nn.Linear(i, o), between())]
    return nn.Sequential(*layers[:-1])


def cnn(channels: int) -> list[nn.Module]:
    convolutions = [
        nn.Conv2d(channels, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
    ]
    return [*convolutions, nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()]


class Agent(nn.Module):
    """Holds the parts of an agent under the names that the script gives them."""

    def __init__(self, **parts: nn.Module | torch.Tensor) -> None:
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)


def saved(agent: nn.Module, path: Path, *more: nn.Module) -> Path:
    torch.manual_seed(1)
    torch.save(
        (agent.state_dict(), *(each.state_dict() for each in more)) if more else agent.state_dict(),
        path / "a.cleanrl_model",
    )
    return path / "a.cleanrl_model"


def played(source: Path, options: ConvertOptions | None = None) -> palaestra.Policy:
    target = source.with_suffix(".onnx")
    assert convert(source, target, options).difference < 1e-5
    return palaestra.load_policy(target, seed=0)


@torch.no_grad()
def test_ppo_takes_the_likeliest_choice(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 8, 1), nn.Tanh), actor=mlp((4, 8, 8, 3), nn.Tanh))
    policy = played(saved(agent, tmp_path))
    obs = torch.randn(ROWS, 4)
    assert (policy.act(obs, deterministic=True).discrete[:, 0] == agent.actor(obs).argmax(1).numpy()).all()


@torch.no_grad()
def test_ppo_with_several_branches_needs_them_named(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor=mlp((4, 8, 5), nn.Tanh))
    policy = played(saved(agent, tmp_path), ConvertOptions(branches=(3, 2)))
    obs = torch.randn(ROWS, 4)
    expected = torch.stack([part.argmax(1) for part in agent.actor(obs).split((3, 2), 1)], 1)
    assert (policy.act(obs, deterministic=True).discrete == expected.numpy()).all()
    with pytest.raises(ExportError, match="5 outputs, and branches of 3, 3 choices need 6"):
        convert(tmp_path / "a.cleanrl_model", tmp_path / "b.onnx", ConvertOptions(branches=(3, 3)))


@torch.no_grad()
def test_continuous_ppo_clips_to_the_bounds_after_normalizing(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor_mean=mlp((4, 8, 2), nn.Tanh), actor_logstd=torch.zeros(1, 2))
    mean = np.array([1.0, 2.0, 3.0, 4.0])
    var = np.array([4.0, 1.0, 9.0, 1.0])
    np.savez(tmp_path / "obs.npz", mean=mean, var=var, clip=10.0)
    options = ConvertOptions(bounds=((-0.1,), (0.2,)), normalizer=tmp_path / "obs.npz")
    policy = played(saved(agent, tmp_path), options)
    obs = np.random.default_rng(0).normal(size=(ROWS, 4)) * 20
    scaled = torch.from_numpy(np.clip((obs - mean) / np.sqrt(var + 1e-8), -10, 10)).float()
    expected = agent.actor_mean(scaled).clamp(-0.1, 0.2).numpy()
    np.testing.assert_allclose(policy.act(obs, deterministic=True).continuous, expected, atol=1e-5)
    assert (expected == np.float32(0.2)).any()


@torch.no_grad()
def test_without_bounds_actions_are_as_the_network_gives_them(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor_mean=mlp((4, 8, 2), nn.Tanh), actor_logstd=torch.zeros(1, 2))
    agent.actor_mean[2].bias += 5
    done = convert(saved(agent, tmp_path), tmp_path / "a.onnx")
    obs = torch.randn(ROWS, 4)
    action = palaestra.load_policy(done.path).act(obs, deterministic=True).continuous
    np.testing.assert_allclose(action, agent.actor_mean(obs).numpy(), atol=1e-5)
    assert any("--bounds" in remark for remark in done.remarks)


@torch.no_grad()
@pytest.mark.parametrize("head", ["actor", "network.9"])
def test_atari_agents_see_bytes_as_fractions(tmp_path: Path, head: str):
    body = nn.Sequential(*cnn(4))
    last = nn.Linear(512, 6)
    agent = (
        Agent(network=body, actor=last, critic=nn.Linear(512, 1))
        if head == "actor"
        else Agent(network=nn.Sequential(*body, last))
    )
    policy = played(saved(agent, tmp_path))
    frames = np.random.default_rng(0).integers(0, 256, (5, 4, 84, 84), np.uint8)
    expected = last(body(torch.from_numpy(frames).float() / 255)).argmax(1).numpy()
    assert (policy.act(frames, deterministic=True).discrete[:, 0] == expected).all()
    assert (policy.act(frames.astype(np.float32) / 255, deterministic=True).discrete[:, 0] == expected).all()


@torch.no_grad()
def test_dqn_always_takes_the_best_value(tmp_path: Path):
    agent = Agent(network=mlp((4, 12, 8, 3), nn.ReLU))
    policy = played(saved(agent, tmp_path))
    obs = torch.randn(ROWS, 4)
    assert (policy.act(obs).discrete[:, 0] == agent.network(obs).argmax(1).numpy()).all()


def off_policy(**heads: nn.Module) -> Agent:
    scale = torch.tensor([[2.0, 1.0]])
    middle = torch.tensor([[0.0, 0.5]])
    return Agent(fc1=nn.Linear(4, 8), fc2=nn.Linear(8, 8), **heads, action_scale=scale, action_bias=middle)


@torch.no_grad()
def test_sac_and_td3_scale_tanh_to_the_range_in_the_file(tmp_path: Path):
    for name, agent in (
        ("fc_mean", off_policy(fc_mean=nn.Linear(8, 2), fc_logstd=nn.Linear(8, 2))),
        ("fc_mu", off_policy(fc_mu=nn.Linear(8, 2))),
    ):
        obs = torch.randn(ROWS, 4) * 3
        features = agent.fc2(agent.fc1(obs).relu()).relu()
        expected = getattr(agent, name)(features).tanh() * agent.action_scale + agent.action_bias
        source = saved(agent, tmp_path, nn.Linear(1, 1))  # with critics behind, as the scripts save it
        source.with_suffix(".onnx").unlink(missing_ok=True)
        np.testing.assert_allclose(played(source).act(obs, deterministic=True).continuous, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            Agent(network=nn.Sequential(nn.Linear(4, 3)), atoms=torch.ones(3)),
            "layout that is not known .*network.0.weight 3x4",
        ),
        (Agent(lstm=nn.LSTM(4, 4), actor=nn.Linear(4, 2)), "layout that is not known"),
        (
            Agent(critic=nn.Sequential(nn.Linear(2, 1)), actor=nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))),
            "between its layers 0 and 1",
        ),
        (
            Agent(network=nn.Sequential(nn.Conv2d(1, 2, 3), *cnn(2)[1:]), actor=nn.Linear(512, 2)),
            "kernels 3x3, 4x4, 3x3; supported is Nature",
        ),
    ],
)
def test_other_architectures_are_refused_by_name(tmp_path: Path, agent: Agent, message: str):
    with pytest.raises(ExportError, match=message):
        convert(saved(agent, tmp_path), tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ConvertOptions(obs=((5,),)), "reads 4 numbers; --obs-shape names 5"),
        (ConvertOptions(continuous=2), "has discrete actions"),
        (ConvertOptions(activation="tahn"), "did you mean 'tanh'"),
        (ConvertOptions(normalizer=Path("nowhere.npz")), "nowhere.npz cannot be read"),
    ],
)
def test_flags_that_do_not_fit_the_file_are_refused(tmp_path: Path, options: ConvertOptions, message: str):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor=mlp((4, 8, 3), nn.Tanh))
    with pytest.raises(ExportError, match=message):
        convert(saved(agent, tmp_path), tmp_path / "a.onnx", options)


def test_bounds_of_another_number_of_actions_are_refused(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor_mean=mlp((4, 8, 2), nn.Tanh), actor_logstd=torch.zeros(1, 2))
    with pytest.raises(ConfigError, match="3 numbers on a side; the policy has 2"):
        convert(saved(agent, tmp_path), tmp_path / "a.onnx", ConvertOptions(bounds=((-1, -1, -1), (1, 1, 1))))


def test_several_observations_are_joined_as_the_network_read_them(tmp_path: Path):
    agent = Agent(critic=mlp((4, 8, 1), nn.Tanh), actor=mlp((4, 8, 3), nn.Tanh))
    source = saved(agent, tmp_path)
    obs = torch.randn(ROWS, 4)
    whole = played(source).act(obs, deterministic=True)
    convert(source, tmp_path / "b.onnx", ConvertOptions(obs=((1,), (3,))))
    parts = palaestra.load_policy(tmp_path / "b.onnx").act([obs[:, :1], obs[:, 1:]], deterministic=True)
    assert (whole.discrete == parts.discrete).all()
