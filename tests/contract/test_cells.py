"""Every trainer with every kind of observation and action, with memory and without, and every reward signal: trained,
resumed, exported.

The fast suite takes each trainer with memory and without, and each of the rest at least once; with `-m slow` come all
that are left. What encoders there are is the business of test_networks.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from any_env import Anything
from small_runs import differences, settings, state
from test_networks import ACTIONS, GOAL, MEMORIES, TILES, VECTOR, few

import palaestra
from palaestra.core.specs import ObsSpec
from palaestra.core.timestep import Action
from palaestra.onnx_export.check import compare
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.play.demo_recording import DemoRecorder
from palaestra.runtime.storage.networks import load_networks

IMAGE = ObsSpec("image", (3, 20, 20))
SEEN = {
    "vector": (VECTOR,),
    "image": (IMAGE,),
    "vector, goal": (VECTOR, GOAL),
    "entities": (TILES,),
    "all": (IMAGE, VECTOR, TILES),
}
TRAINERS = ("ppo", "poca", "sac", "bc")
NETWORK = {"hidden_units": 8, "num_layers": 1}
SIGNALS: dict[str, dict[str, Any]] = {
    "extrinsic": {"extrinsic": {"normalize": True}},
    "curiosity": {"extrinsic": {}, "curiosity": {"strength": 0.1, "network_settings": NETWORK}},
    "rnd": {
        "extrinsic": {},
        "rnd": {"strength": 0.1, "normalize": True, "network_settings": {**NETWORK, "normalize": True}},
    },
    "gail": {"gail": {"use_vail": True, "use_actions": True, "network_settings": NETWORK}},
    "all and cloning": {
        "extrinsic": {},
        "curiosity": {"network_settings": NETWORK},
        "rnd": {"network_settings": NETWORK},
        "gail": {},
    },
}
CELLS = [
    cell
    for cell in itertools.product(TRAINERS, SEEN, ACTIONS, MEMORIES, SIGNALS)
    if cell[0] != "bc" or cell[4] == "extrinsic"
]
ROLLOUT = 60


FEW = few(CELLS, lambda cell: {(cell[0], cell[3]), *enumerate(cell)})
"""Few of them, in which each trainer occurs with memory and without, and everything else at least once."""
PARAMETERS = [
    pytest.param(*cell, id=", ".join(cell), marks=[] if cell in FEW else [pytest.mark.slow]) for cell in CELLS
]


def environment(trainer: str, seen: str, action: str, memory: str) -> Anything:
    steady = (list(SEEN).index(seen) + list(ACTIONS).index(action) + list(MEMORIES).index(memory)) % 2 == 0
    return Anything(SEEN[seen], ACTIONS[action], steady=steady, mates=3 if trainer == "poca" else 0)


def demonstration(env: Anything, path: Path) -> Path:
    """What random agents did."""
    recorder = DemoRecorder(env, path, 20)
    generator = torch.Generator().manual_seed(0)
    steps = env.reset(5)
    recorder.note(steps)
    while not recorder.done:
        step = steps["Any"]
        spec = env.spec.action
        rows = env.num_areas
        continuous = torch.rand(rows, spec.continuous, generator=generator) * 2 - 1
        discrete = torch.zeros(rows, len(spec.branches), dtype=torch.int64)  # the first of a branch is always allowed
        actions = {"Any": Action(continuous, discrete)} if bool(step.acting.any()) else {}
        recorder.decided(actions)
        steps = env.step(actions)
        recorder.note(steps)
    return recorder.close()[0].parent


def tree(trainer: str, memory: str, signal: str, demos: Path) -> dict[str, Any]:
    rewards = {
        name: {**one, **({"demo_path": str(demos)} if name == "gail" else {})} for name, one in SIGNALS[signal].items()
    }
    hyper: dict[str, Any] = {"batch_size": 16, "buffer_size": ROLLOUT}
    rest: dict[str, Any] = {"reward_signals": rewards}
    if trainer in ("ppo", "poca"):
        hyper["num_epoch"] = 2
    if trainer == "sac":
        hyper |= {"steps_per_update": 6, "buffer_init_steps": 24}
    if trainer == "bc":
        hyper["demo_path"] = str(demos)
        rest = {}
    if signal == "all and cloning":
        rest["behavioral_cloning"] = {"demo_path": str(demos), "samples_per_update": 32, "steps": 2 * ROLLOUT}
    network = {"hidden_units": 12, "num_layers": 1, "normalize": True, "memory": MEMORIES[memory]}
    return settings(
        "Any",
        4 * ROLLOUT,
        trainer_type=trainer,
        network_settings=network,
        hyperparameters=hyper,
        summary_freq=ROLLOUT,
        **rest,
    )


@pytest.mark.few(5)
@pytest.mark.parametrize(("trainer", "seen", "action", "memory", "signal"), PARAMETERS)
def test_a_cell_learns_goes_on_and_leaves_a_model_that_answers_alike(
    trainer: str, seen: str, action: str, memory: str, signal: str, tmp_path: Path
):
    demos = demonstration(environment(trainer, seen, action, memory), tmp_path / "demos" / "Any.demo")

    def train(name: str, until: int | None = None, **more: Any) -> palaestra.Result:
        stop: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
        given = {"callbacks": stop, "results_dir": str(tmp_path), "run_id": name, "seed": 3, "quiet": True, **more}
        return palaestra.train(
            tree(trainer, memory, signal, demos), env=environment(trainer, seen, action, memory), **given
        )

    whole = train("whole")
    assert not train("parts", until=2 * ROLLOUT).finished
    resumed = train("parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    network, spec = load_networks(whole.folder)["Any"]
    assert compare(network, spec, whole.models["Any"], rows=200) < 1e-4
