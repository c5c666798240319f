from types import SimpleNamespace
from typing import Any, cast

import pytest

from palaestra.core.metrics import REWARD
from palaestra.runtime.run.features.report import Report
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import BehaviorSettings


@pytest.mark.parametrize(
    ("settings", "hopeless"),
    [
        ({}, True),
        ({"reward_signals": {"extrinsic": {}, "rnd": {}}}, False),
        ({"behavioral_cloning": {"demo_path": "a"}}, False),
        ({"trainer_type": "sac", "hyperparameters": {"prior_data": {"run": "a"}}}, False),
    ],
)
def test_where_all_episodes_earned_the_same_more_steps_promise_nothing_unless_something_else_leads(settings, hopeless):
    learner: Any = SimpleNamespace(settings=BehaviorSettings.model_validate(settings))
    run = SimpleNamespace(
        learners={"A": learner},
        inference=False,
        kind="own",
        parts=[],
        settings=SimpleNamespace(env_settings=SimpleNamespace(env_path=None)),
        statistics=SimpleNamespace(returns_so_far=lambda name: {REWARD: [0.0] * 20}),
    )
    assert Report(cast(Run, run)).hopeless is hopeless
