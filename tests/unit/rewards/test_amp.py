import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from any_transitions import CPU, EVERYTHING
from torch import Tensor, nn
from torch.testing import assert_close

from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions
from palaestra.rewards.amp import AMP, KeptPairs, discriminator_loss, style_reward
from palaestra.rewards.settings import AMPSettings

SPEC = BehaviorSpec((ObsSpec("target", (1,), goal=True), ObsSpec("body", (3,))), ActionSpec(1))


def amp(path: Path, states: np.ndarray, spec: BehaviorSpec = SPEC, **settings: Any) -> AMP:
    """With one clip of these states of the body, (N, 3)."""
    np.savez(path / "walk.npz", body=states)
    tree = {"network_settings": {"hidden_units": 32, "num_layers": 2}, "clips": str(path / "walk.npz"), **settings}
    return AMP(AMPSettings.model_validate(tree), spec, CPU, 0)


def moves(before: Tensor, after: Tensor) -> Transitions:
    """Moves of the body from states to states, each (N, 3)."""
    rows = len(before)
    none = torch.zeros(rows, dtype=torch.bool)
    targets = torch.rand(rows, 1)
    action = Action(torch.zeros(rows, 1), torch.zeros(rows, 0, dtype=torch.int64))
    return Transitions((targets, before), action, (targets, after), torch.zeros(rows), none, none)


def test_the_reward_is_1_where_d_is_that_of_clips_and_0_from_minus_1_down_and_3_up():
    d = torch.tensor([1.0, 0.0, 2.0, -1.0, 3.0, -4.0, 9.0, -0.5])
    assert_close(style_reward(d), torch.tensor([1.0, 0.75, 0.75, 0.0, 0.0, 0.0, 0.0, 0.4375]))


def test_the_loss_is_that_of_least_squares_and_the_slope_is_taken_at_the_clips():
    linear = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 2.0]]))

    class Curved(nn.Module):
        """D = x + 2 y + y^2: its slope is (1, 2 + 2 y)."""

        def forward(self, pairs: Tensor) -> Tensor:
            return linear(pairs).squeeze(1) + pairs[:, 1].square()

    policy = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # D = 1 and 3: (D + 1)^2 = 4 and 16
    clips = torch.tensor([[0.0, 0.0], [1.0, -1.0]], requires_grad=True)  # D = 0 and 0: (D - 1)^2 = 1 and 1
    loss, slope, (ours, theirs) = discriminator_loss(Curved(), policy, clips)
    assert ours.tolist() == [1, 3]
    assert theirs.tolist() == [0, 0]
    assert loss.item() == 10 + 1
    assert slope.item() == ((1 + 4) + (1 + 0)) / 2
    slope.backward()  # d/dw of (w0^2 + w1^2 + w0^2 + (w1 - 2)^2) / 2
    assert linear.weight.grad is not None
    assert linear.weight.grad.tolist() == [[2, 2]]


def test_a_step_goes_down_the_loss_and_half_the_weighted_slope(tmp_path: Path):
    states = np.random.default_rng(0).normal(size=(50, 3))
    signal = amp(tmp_path, states, gradient_penalty=4.0)
    batch = moves(torch.randn(16, 3), torch.randn(16, 3))
    stepped: list[tuple[Tensor, int]] = []
    signal.optimizer.step = lambda loss, rows: stepped.append((loss.detach(), rows))
    measured = signal.learn(batch)
    (total, rows) = stepped[0]
    assert rows == 16
    assert_close(total, measured["Losses/AMP Loss"] + 2 * measured["Policy/AMP Grad Penalty"])


def test_a_pair_is_the_chosen_numbers_before_and_after_in_deviations_of_the_clips(tmp_path: Path):
    # mean and deviation of the second number are 2 and 1, of the third 10 and 5
    signal = amp(tmp_path, np.array([[0, 1, 5], [7, 3, 15], [0, 1, 5], [9, 3, 15.0]]), observations=["body[1:]"])
    batch = moves(torch.tensor([[100.0, 4.0, 10.0]]), torch.tensor([[100.0, 1.0, -1000.0]]))
    assert_close(signal._scaled(signal._pairs(batch)), torch.tensor([[2.0, 0.0, -1.0, -10.0]]))
    rows = torch.tensor([0, 2])
    assert signal.clips.take(rows).tolist() == [[1, 5, 3, 15], [1, 5, 3, 15]]


def test_it_tells_a_motion_from_the_same_states_in_another_order(tmp_path: Path):
    def circle(angle: Tensor) -> Tensor:
        return torch.stack([angle.cos(), angle.sin(), (2 * angle).cos()], 1)

    clip = circle(torch.arange(0, 100, 0.5)).numpy()
    signal = amp(tmp_path, clip, learning_rate=3e-3)
    generator = torch.Generator().manual_seed(0)

    def going(step: float, rows: int = 128) -> Transitions:
        angle = torch.rand(rows, generator=generator) * 2 * math.pi
        return moves(circle(angle), circle(angle + step))

    for _ in range(150):
        signal.learn(going(-0.5))
    with torch.no_grad():
        forward, backward, still = (signal.reward(going(step)).mean().item() for step in (0.5, -0.5, 0.0))
    assert forward > 0.8
    assert backward < 0.3
    assert still < forward


def test_kept_pairs_are_the_last_ones_and_go_on_from_their_state():
    def numbers(*values: float) -> Tensor:
        return torch.tensor(values).unsqueeze(1)

    kept = KeptPairs(4, 1, CPU)
    kept.add(numbers(1, 2, 3))
    assert len(kept) == 3
    kept.add(numbers(4, 5))  # 5 lies over 1
    again = KeptPairs(4, 1, CPU)
    again.load_state_dict(kept.state_dict())
    for each in (kept, again):
        each.add(numbers(6))
        assert each.state_dict()["pairs"].squeeze(1).tolist() == [5, 6, 3, 4]
        assert {*each.draw(200, torch.Generator().manual_seed(0)).squeeze(1).tolist()} == {3, 4, 5, 6}
    kept.add(numbers(*range(10, 20)))
    assert {*kept.state_dict()["pairs"].squeeze(1).tolist()} == {10, 11, 12, 13}
    smaller, larger, none = (KeptPairs(size, 1, CPU) for size in (2, 9, 0))  # of other numbers of ranks
    for each, size in ((smaller, 2), (larger, 4), (none, 0)):
        each.load_state_dict(kept.state_dict())
        assert len(each) == size
        each.add(numbers(0))
    assert larger.state_dict()["pairs"].squeeze(1).tolist()[4:] == [0]


def test_half_of_the_policys_pairs_are_those_of_earlier_policies(tmp_path: Path):
    signal = amp(tmp_path, np.random.default_rng(0).normal(size=(50, 3)))
    first, later = (moves(torch.full((16, 3), x), torch.full((16, 3), x)) for x in (1.0, 2.0))
    signal.learn(first)
    assert len(signal._kept) == 2  # one in eight
    judged: list[Tensor] = []
    signal.model.register_forward_pre_hook(lambda _, pairs: judged.append(pairs[0].detach()))
    signal.learn(later)
    policy = judged[0]
    old, new = (signal._scaled(signal._pairs(batch))[0] for batch in (first, later))
    assert [torch.equal(row, new) for row in policy] == [True] * 8 + [False] * 8
    assert all(torch.equal(row, old) for row in policy[8:])


def test_a_state_of_other_numbers_is_refused_though_there_are_as_many(tmp_path: Path):
    states = np.random.default_rng(0).normal(size=(9, 3))
    first, other = (amp(tmp_path, states, observations=[f"body[{i}]"]) for i in range(2))
    state = first.state_dict()
    first.load_state_dict({name: column for name, column in state.items() if name != "compared"})  # an early one
    with pytest.raises(ValueError, match="of other chosen numbers"):
        other.load_state_dict(state)


def test_more_kept_pairs_than_memory_holds_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"kept_pairs: 1,000,000,000,000 pairs of 3 numbers take .* are free"):
        amp(tmp_path, np.random.default_rng(0).normal(size=(9, 3)), kept_pairs=10**12)


def test_without_a_choice_all_vectors_but_goals_are_compared(tmp_path: Path):
    signal = amp(tmp_path, np.random.default_rng(0).normal(size=(9, 3)))
    assert signal.clips.states.shape == (9, 3)
    assert "3 numbers of body" in signal.clips.remark


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (["vectr"], r"no observation is named 'vectr'; did you mean 'vector'\? \(there are: vector 5, image 20x20x1"),
        (["image"], r"'image' is an image \(1, 20, 20\); expected vectors.*gail takes any"),
        (["entities[0]"], r"'entities' is a list of entities.*no order"),
        (["vector[0:6]"], r"vector\[0:6\] asks for number 5; 'vector' has 0 to 4"),
    ],
)
def test_a_choice_that_cannot_be_compared_is_refused(observations: list[str], message: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=f"reward_signals.amp.observations: .*{message}"):
        amp(tmp_path, np.zeros((3, 3)), EVERYTHING, observations=observations)


@pytest.mark.parametrize("entry", ["body[3:1]", "body[]", "body[-1]", "body[a]", "", 3])
def test_a_choice_of_another_form_is_refused_with_the_file(entry: object):
    with pytest.raises(ValueError, match=r"expected (numbers|the name)"):
        AMPSettings.model_validate({"clips": "a.demo", "observations": [entry]})


def test_a_discriminator_of_no_vector_has_nothing_to_compare(tmp_path: Path):
    camera = BehaviorSpec((ObsSpec("camera", (3, 8, 8)), SPEC.obs[0]), ActionSpec(1))
    with pytest.raises(ConfigError, match="has no vector observation except goals"):
        amp(tmp_path, np.zeros((3, 3)), camera)
