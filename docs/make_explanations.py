"""Makes the picture of `docs/explanation/rollout-to-gradient.md`, and prints the numbers that stand there.

    python docs/make_explanations.py picture
    python docs/make_explanations.py numbers

Every number comes from the functions that training calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, tensor

import palaestra
from palaestra.core.timestep import Action, Decision, FinalObs, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.losses.ppo import branch_part, clipped_surrogate, squared_error
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.plots.chart_style import COLORS, GRID, INK, SOFT, new_figure, save
from palaestra.runtime.settings.loading import load
from palaestra.trainers.advantages import ValueEstimates, generalized_advantages, normalized
from palaestra.trainers.ppo import PPO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "rollout-to-gradient.png"
GAMMA, LAMBDA, EPSILON, BETA = 0.9, 0.9, 0.2, 0.01
VALUES = (0.5, 0.6, 0.4, 0.7)
"""What the critic says of the observations at three decisions, and of the one that follows them."""
FINAL_VALUE = 0.2
"""And of the final observation of an episode that ends at the second decision."""
REWARD = 0.1
OLD, NEW = (0.5, 0.4, 0.8), (0.65, 0.36, 0.84)
"""Probabilities of the choices that were made: when they were, and now."""
NEW_VALUES = (0.55, 0.62, 0.45)


class Critic:
    """A critic that says what its observation is, so that an observation of 0.5 has the value 0.5."""

    def prepare(self, obs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Returns the observations as they are."""
        return obs

    def value(self, inputs: tuple[Tensor, ...], sequences: None = None) -> Tensor:
        """Returns the values, (N, 1)."""
        return inputs[0]


def table(value: float, reward: float, end: str = "") -> TimeStep:
    """Returns the table of one agent on a tick, on which its episode may have ended."""
    final = FinalObs(tensor([0]), (tensor([[FINAL_VALUE]]),)) if end else FinalObs(tensor([]), (torch.empty(0, 1),))
    here = tensor([0])
    return TimeStep(
        obs=(tensor([[value]]),),
        acting=tensor([True]),
        reward=tensor([reward]),
        group_reward=tensor([0.0]),
        terminated=tensor([end == "terminated"]),
        truncated=tensor([end == "truncated"]),
        final_obs=final,
        action_mask=None,
        area=here,
        team=here,
        group=tensor([-1]),
    )


def rollout_of(end: str) -> Rollout:
    """Returns a rollout of three decisions of one agent, collected as in training. `end`: that of its second one."""
    tables = [table(value, REWARD, end if t == 2 else "") for t, value in enumerate(VALUES)]
    action = Action(torch.empty(1, 0), tensor([[0]]))
    decision = Decision(action, action, tensor([[0.0]]), torch.empty(1, 0))
    buffer = SteadyBuffer(tables[0], decision, 3)
    for now, after in pairwise(tables):
        buffer.open(now, decision)
        buffer.complete(after)
    return buffer.take(tables[-1])


def advantages(end: str) -> Tensor:
    """Prints the numbers of a rollout up to its advantages; returns these, (3,)."""
    estimates: Any = ValueEstimates(Critic(), rollout_of(end), None)  # type: ignore[arg-type]
    signals: Any = SimpleNamespace(gammas=(GAMMA,), ignore_ends=(False,))
    values = estimates.of([estimates.reward()], signals, 64)
    advantage = generalized_advantages(values, signals.gammas, LAMBDA)
    print(f"\n{end or 'the episode goes on'}")
    show("reward", values.reward)
    show("value", values.value)
    show("next value", values.next_value)
    show("delta", values.reward + GAMMA * values.next_value - values.value)
    show("the sum goes on", values.goes_on.float())
    show("advantage", advantage)
    show("target", advantage + values.value)
    show("normalized", normalized(advantage.flatten()))
    return advantage.flatten()


def losses(advantage: Tensor) -> None:
    """Prints the loss of the three decisions as one minibatch, and its gradient."""
    gain, old, new = normalized(advantage), tensor(OLD).log(), tensor(NEW)
    target = advantage + tensor(VALUES[:3])
    log_ratio = (new.log() - old).unsqueeze(1)
    policy = clipped_surrogate(log_ratio, gain, clip_range=EPSILON)
    value = squared_error(tensor(NEW_VALUES), target)
    log_probs = torch.stack([new, 1 - new], 1).log()
    choice = torch.zeros(3, 1, dtype=torch.int64)
    shared = {"clip_range": EPSILON, "components": 1}
    part = branch_part(log_probs, choice, old.unsqueeze(1), gain, entropy_coef=0.0, **shared)
    whole = branch_part(log_probs, choice, old.unsqueeze(1), gain, entropy_coef=BETA, **shared)
    print("\nthe loss")
    show("ratio", log_ratio.exp())
    show("policy loss of each", policy)
    show("squared error of each", value)
    print(f"policy {policy.mean():.4f}, value {value.mean():.4f}, entropy {whole.entropy:.4f}")
    print(f"loss {policy.mean() + 0.5 * value.mean() - BETA * whole.entropy:.4f}")
    show("d policy / d logit of the choice", part.grad[:, 0])
    show("d loss / d logit of the choice", whole.grad[:, 0])
    show("d loss / d value", (tensor(NEW_VALUES) - target) / 3)


def shapes() -> None:
    """Prints the shapes of the first rollout of 3DBall with its shipped settings, and what an update makes of it."""
    settings = load(ROOT / "configs/ppo/3DBall.yaml").settings.behaviors["3DBall"]
    env = palaestra.make("3DBall", areas=12)
    trainer = PPO(env.behaviors["3DBall"], settings, torch.device("cpu"), 1)
    collector = Collector(
        env, lambda name, spec: BehaviorCollector(name, spec, trainer.policy, trainer.rollout_size), seed=1
    )
    rollout = collector.collect(10**6, lambda: False)["3DBall"]
    print("\n3DBall")
    for field in fields(rollout):
        value = getattr(rollout, field.name)
        found = value.continuous if isinstance(value, Action) else value[0] if isinstance(value, tuple) else value
        print(f"{field.name:20}", tuple(found.shape) if isinstance(found, Tensor) else found)
    print("terminated", int(rollout.terminated.sum()), "truncated", int(rollout.truncated.sum()))
    trainer.update(rollout, 12000)
    decisions = trainer.progress * trainer.hyper.num_epoch * rollout.reward.numel()
    print("gradient steps", round(decisions / trainer.batch_size))


def show(name: str, column: Tensor) -> None:
    """Prints a row of a table."""
    print(f"{name:34}", *(f"{value:8.4f}" for value in column.flatten().tolist()))


def numbers() -> None:
    """Prints all numbers of the page."""
    losses(advantages(""))
    advantages("terminated")
    advantages("truncated")
    shapes()


def box(axes: Axes, at: tuple[float, float], size: tuple[float, float], text: Sequence[str], color: str) -> None:
    """Draws a box with a title and lines below it, `at` its lower left corner."""
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = at, size
    style = "round,pad=0,rounding_size=1.2"
    axes.add_patch(FancyBboxPatch(at, width, height, boxstyle=style, facecolor="white", edgecolor=color, linewidth=1.8))
    title, *rest = text
    top = y + height - 3.4
    axes.text(x + width / 2, top, title, ha="center", va="center", fontsize=10.5, fontweight="bold", color=INK)
    for i, line in enumerate(rest):
        axes.text(x + width / 2, top - 3.6 * (i + 1), line, ha="center", va="center", fontsize=9, color=SOFT)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "", above: float = 1.6) -> None:
    """Draws an arrow with a text over its middle."""
    look = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look)
    (x, y), (u, v) = start, end
    axes.text((x + u) / 2, (y + v) / 2 + above, text, ha="center", va="center", fontsize=9, color=INK)


def grid(axes: Axes, left: float, top: float) -> None:
    """Draws a rollout as cells: a row a tick, a column a slot; thick lines are ends of episodes."""
    from matplotlib.patches import Rectangle

    ends = {(3, 0), (6, 2), (2, 3), (5, 4)}
    for row in range(8):
        for slot in range(5):
            at = (left + 4.2 * slot, top - 2.7 * (row + 1))
            face = "#dfe9f8" if slot == 2 else "white"
            axes.add_patch(Rectangle(at, 4.2, 2.7, facecolor=face, edgecolor=GRID, linewidth=1))
            if (row, slot) in ends:
                axes.plot([at[0], at[0] + 4.2], [at[1], at[1]], color=COLORS[1], linewidth=2.4, zorder=3)
    axes.add_patch(Rectangle((left, top - 21.6), 21, 21.6, fill=False, edgecolor=COLORS[0], linewidth=1.8))


def picture() -> None:
    """Draws the way from a tick to a gradient."""
    figure = new_figure(11.5, 6.2)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 115)
    axes.set_ylim(0, 62)
    axes.axis("off")
    letters = {"fontsize": 12, "fontweight": "bold"}
    axes.text(2, 59.5, "Collect: on every tick", color=COLORS[0], **letters)
    axes.text(30, 23, "Learn: when the rollout is full", color=COLORS[2], **letters)
    box(axes, (2, 40), (24, 13), ("Policy network", "turns observations into", "distributions, and draws"), COLORS[0])
    box(axes, (50, 40), (24, 13), ("Environment", "moves S agents by one tick,", "gives rewards and ends"), COLORS[0])
    arrow(axes, (26, 50), (50, 50), "actions (S, 2)")
    arrow(axes, (50, 43), (26, 43), "observations (S, 8)")
    arrow(axes, (74, 46.5), (88, 46.5), "a row")
    grid(axes, 88, 57)
    axes.text(98.5, 59, "Rollout (T, S)", ha="center", va="center", fontsize=10.5, fontweight="bold", color=INK)
    axes.text(110.4, 46, "time T", rotation=270, ha="center", va="center", fontsize=9, color=SOFT)
    axes.text(98.5, 33, "slots S; red: an episode ends", ha="center", va="center", fontsize=9, color=SOFT)
    lines = (
        ((86, 3), ("Values", "V of each observation,", "0 after a termination", "(T, S, K)")),
        ((58, 3), ("Advantages", "backwards in time,", "column by column", "(T, S, K)")),
        ((30, 3), ("Minibatches", "N = T S rows, shuffled,", "64 at a time,", "3 epochs")),
        ((2, 3), ("Loss, gradient", "clipped ratio, squared", "error, entropy;", "a step of Adam")),
    )
    for at, text in lines:
        box(axes, at, (25, 17), text, COLORS[2])
    arrow(axes, (98.5, 31), (98.5, 20))
    for x in (86, 58, 30):
        arrow(axes, (x, 11.5), (x - 3, 11.5))
    arrow(axes, (14, 20), (14, 40))
    axes.text(15.5, 30, "new weights", ha="left", va="center", fontsize=9, color=INK)
    save(figure, PICTURE)


PARTS: dict[str, Callable[[], None]] = {"picture": picture, "numbers": numbers}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
