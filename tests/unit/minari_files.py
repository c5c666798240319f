"""Minari datasets made by hand, for tests."""

import warnings
from collections.abc import Sequence
from inspect import signature
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra.datasets import read_demo
from palaestra.demos import DemoColumns, DemoSource
from palaestra.demos.record_columns import join


def stacked(steps: Sequence[Any]) -> Any:
    """What is nested in each step, as Minari has it: arrays in dictionaries and tuples."""
    if isinstance(steps[0], dict):
        return {key: stacked([step[key] for step in steps]) for key in steps[0]}
    if isinstance(steps[0], tuple):
        return tuple(stacked(list(parts)) for parts in zip(*steps, strict=True))
    return np.stack([np.asarray(step) for step in steps])


class Collector(gymnasium.Wrapper):
    """Keeps everything that passes between an environment and its user, as Minari's own collector does (which needs
    JAX).
    """

    def __init__(self, env: gymnasium.Env, *, infos: bool = False) -> None:
        super().__init__(env)
        self.episodes: list[dict[str, list[Any]]] = []
        self._infos = infos

    def reset(self, **options: Any) -> Any:
        obs, info = self.env.reset(**options)
        self.episodes.append({"obs": [obs], "action": [], "reward": [], "end": [], "cut": [], "info": [info]})
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, end, cut, info = self.env.step(action)
        for name, value in zip(
            ("obs", "action", "reward", "end", "cut", "info"), (obs, action, reward, end, cut, info), strict=True
        ):
            self.episodes[-1][name].append(value)
        return obs, reward, end, cut, info

    def dataset(self, id: str, **options: Any) -> Any:
        """Writes all episodes with a decision."""
        complete = [one for one in self.episodes if one["reward"]]
        parts = [
            {
                "observations": stacked(one["obs"]),
                "actions": stacked(one["action"]),
                "rewards": np.array(one["reward"]),
                "terminations": np.array(one["end"]),
                "truncations": np.array(one["cut"]),
                "infos": stacked(one["info"]) if self._infos else None,
            }
            for one in complete
        ]
        return dataset(id, self.observation_space, self.action_space, parts, **options)


def keeps_images() -> bool:
    """Whether the installed Minari can save images as they are. Before 0.5.4 it makes JPEGs of them."""
    import minari

    return "jpeg_encoding" in signature(minari.create_dataset_from_buffers).parameters


def dataset(
    id: str,
    observation_space: spaces.Space,
    action_space: spaces.Space,
    episodes: Sequence[dict[str, Any]],
    **options: Any,
) -> Any:
    """Writes a dataset with Minari itself."""
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = [EpisodeBuffer(**one) for one in episodes]
    raw = {"jpeg_encoding": False} if keeps_images() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return minari.create_dataset_from_buffers(
            id, buffers, observation_space=observation_space, action_space=action_space, **raw, **options
        )


def episode(steps: int, *, end: bool = True, cut: bool = False, start: int = 0, **more: Any) -> dict[str, Any]:
    """An episode whose observations count from `start` on, for a Box of two numbers and a Discrete of 3."""
    last = np.arange(steps) == steps - 1
    return {
        "observations": np.repeat(np.arange(start, start + steps + 1, dtype=np.float32)[:, None], 2, 1),
        "actions": np.arange(start, start + steps) % 3,
        "rewards": np.arange(1.0, steps + 1),
        "terminations": last & end,
        "truncations": last & cut,
        **more,
    }


BOX = spaces.Box(-9, 9, (2,), np.float32)
CHOICE = spaces.Discrete(3)


def simple(id: str, *episodes: dict[str, Any], **options: Any) -> Any:
    return dataset(id, BOX, CHOICE, episodes or [episode(3)], **options)


def records(source: DemoSource | str) -> DemoColumns:
    """All records at once."""
    return join(list((read_demo(source) if isinstance(source, str) else source).chunks()))


def assert_same(one: DemoColumns, other: DemoColumns, *, scaled: bool = False) -> None:
    """Asserts that records are equal to the last digit; actions that an environment scaled, to float32's."""
    for name in ("reward", "group_reward", "done", "truncated", "discrete", "acted"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.continuous, other.continuous, rtol=0, atol=2e-7 if scaled else 0)
    for obs, others in zip(one.obs, other.obs, strict=True):
        np.testing.assert_array_equal(obs, others)
    masks = [np.ones((len(each), 1)) if each.mask is None or each.mask.all() else each.mask for each in (one, other)]
    np.testing.assert_array_equal(*masks)
