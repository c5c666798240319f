import itertools
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from any_env import Anything
from small_runs import settings
from tiny_envs import CPU, Bandit, behavior_settings, spec_of
from torch import nn

import palaestra
from palaestra.core.errors import ConfigError, PluginError
from palaestra.core.metrics import Metrics
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.data.rollout import Rollout
from palaestra.runtime.collect.initialization import OTHER_CRITIC, OTHER_REWARDS, could_start, initialize
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.run.rate_jumps import current_value
from palaestra.trainers.ppo import PPO

MEMORY = {"memory": {"sequence_length": 4, "memory_size": 8}}


def learner(network: dict[str, Any], seed: int = 0, **rest: Any) -> Learner:
    settings = behavior_settings(network={"hidden_units": 4, **network}, **rest)
    return Learner("Walker", spec_of((3,), continuous=2), settings, CPU, seed, inference=False)


def test_it_says_which_clips_were_read_and_what_is_kept_of_them(tmp_path: Path):
    rows = "".join(f"{episode},{row},{row % 3},{row % 2}\n" for episode in (1, 2) for row in range(4))
    file = tmp_path / "walk.csv"
    file.write_text("episode,vector[0],vector[1],vector[2]\n" + rows)
    name = spec_of((3,), continuous=2).obs[0].name
    file.write_text(file.read_text().replace("vector", name))
    one = learner({}, reward_signals={"extrinsic": {}, "amp": {"clips": str(file), "decision_seconds": 0.1}})
    said = list[tuple[str, str]]()
    one.messages.send_found(one.found, lambda text: said.append(("info", text)), lambda text: said.append(("!", text)))
    (info, warning) = said
    pairs = f"Walker: amp: 6 pairs of 2 episodes from {file}; 3 numbers of {name}"
    assert info == ("info", f"{pairs}; 100,000 pairs of earlier policies are kept, up to 2.3 MiB in checkpoints")
    assert warning[0] == "!"
    assert warning[1].startswith(f"Walker: {file} has no column `time`")


def test_a_network_starts_from_another_of_its_shape():
    here = learner(MEMORY)
    there = learner(MEMORY, seed=1)
    assert initialize(here, there.state_dict(), Path("results/first")) == ""
    theirs = there.trainer.network.state_dict()
    assert all(torch.equal(value, theirs[key]) for key, value in here.trainer.network.state_dict().items())


def test_values_of_as_many_other_signals_begin_anew():
    here, there = (learner({}, reward_signals={"extrinsic": {}, name: {}}) for name in ("curiosity", "rnd"))
    with torch.no_grad():
        there.trainer.network.value_head.weight.fill_(5.0)
    assert initialize(here, there.state_dict(), Path("first")) == OTHER_REWARDS
    assert here.trainer.network.value_head.weight.abs().max() < 5.0
    again = learner({}, reward_signals={"extrinsic": {}, "rnd": {}})
    assert initialize(again, there.state_dict(), Path("first")) == ""
    assert again.trainer.network.value_head.weight.eq(5.0).all()


@pytest.mark.parametrize("others", [{"curiosity": {}}, {}], ids=("as many", "fewer"))
def test_critics_of_sac_begin_anew_with_other_signals(others: dict[str, Any]):
    here, there = (
        learner({}, trainer_type="sac", reward_signals={"extrinsic": {}, **rest}, hyperparameters={"buffer_size": 1000})
        for rest in (others, {"rnd": {}})
    )
    with torch.no_grad():
        for values in there.trainer.network.parameters():
            values.fill_(5.0)
    assert initialize(here, there.state_dict(), Path("first")) == OTHER_REWARDS
    now = here.trainer.network.state_dict()
    assert not any(now[f"{part}.head_{name}"].any() for part in ("critics", "targets") for name in ("weight", "bias"))
    assert now["action_head.weight"].eq(5.0).all()


@pytest.mark.parametrize("body", [None, "residual"])
def test_critics_over_bins_begin_anew_with_the_narrow_start_of_new_ones(body: str | None):
    here, there = (
        learner({"body": body}, i, trainer_type="sac", hyperparameters={"buffer_size": 1000, "critic_bins": bins})
        for i, bins in enumerate((5, 7))
    )
    assert initialize(here, there.state_dict(), Path("first")) == OTHER_REWARDS
    critics = here.trainer.network.critics
    start = [-12.5, -3.125, 0.0, -3.125, -12.5]  # -x² / 2 at -5, -2.5, ... deviations
    torch.testing.assert_close(critics.head_bias[:, 0], torch.tensor([start, start]))
    # bounded weights of 0 are divided by their length after a step, and those of choices that nobody took stay 0
    length = torch.full((2, 5), 0.0 if body is None else 1.0)
    torch.testing.assert_close(critics.head_weight.norm(dim=1), length)


@pytest.mark.parametrize(
    "other",
    [{"reward_signals": {"extrinsic": {}, "curiosity": {}}}, {"trainer_type": "poca"}],
    ids=("more signals", "another trainer"),
)
@pytest.mark.parametrize("swapped", [False, True])
def test_what_values_are_made_for_begins_anew_with_other_signals_or_another_trainer(
    other: dict[str, Any], swapped: bool
):
    some = ({}, other) if swapped else (other, {})
    here, there = (learner(MEMORY, seed=i, **rest) for i, rest in enumerate(some))
    before = {key: value.clone() for key, value in here.trainer.network.state_dict().items()}
    assert initialize(here, there.state_dict(), Path("first")) == OTHER_REWARDS
    theirs = there.trainer.network.state_dict()
    for key, value in here.trainer.network.state_dict().items():
        assert torch.equal(value, before[key] if key.startswith("value_head.") else theirs[key])
    assert not torch.equal(theirs["body.weights.0"], before["body.weights.0"])


OWN, TRUTH = ObsSpec("own", (3,)), ObsSpec("truth", (2,))


@pytest.mark.parametrize(
    ("trainer", "network"),
    [
        *itertools.product(("ppo", "poca", "sac"), ({}, MEMORY, {"normalize": True})),
        ("sac", {"body": "residual"}),
    ],
)
def test_a_policy_goes_on_where_its_critic_sees_more_or_less_than_before(trainer: str, network: dict[str, Any]):
    hyper = {"buffer_size": 1000} if trainer == "sac" else {}
    plain, sees = (
        Learner(
            "Walker",
            BehaviorSpec(obs, ActionSpec(continuous=2)),
            behavior_settings(hyper, {"hidden_units": 4, **network, **more}, trainer_type=trainer),
            CPU,
            seed,
            inference=False,
        )
        for seed, obs, more in ((1, (OWN,), {}), (2, (TRUTH, OWN), {"critic_only": ["truth"]}))
    )
    own, truth = torch.rand(5, 3), torch.rand(5, 2)
    for here, there in ((plain, sees), (sees, plain)):
        before = {key: value.clone() for key, value in here.trainer.network.state_dict().items()}
        with torch.no_grad():
            statistics = getattr(there.trainer.network, "body", nn.Identity()).buffers()
            for values in (*there.trainer.network.parameters(), *statistics):
                values.add_(0.1)
        assert could_start(here.trainer.network, there.state_dict()["trainer"]["network"])
        assert initialize(here, there.state_dict(), Path("first")) == OTHER_CRITIC
        outputs = [
            one.trainer.network.decide(
                one.trainer.network.prepare((own,) if one is plain else (truth, own)),
                torch.zeros(5, one.trainer.network.memory_size),
            )[0]
            for one in (here, there)
        ]
        torch.testing.assert_close(*outputs)
        now = here.trainer.network.state_dict()
        anew = [key for key in now if key.startswith(("critic.", "critics.", "targets.", "value_head."))]
        assert anew
        assert all(torch.equal(now[key], before[key]) for key in anew)


@pytest.mark.parametrize(
    ("here", "there", "says"),
    [
        (
            {},
            MEMORY,
            r"lstms.0.weight_ih_l0: \(16, 4\) saved, missing in this run",
        ),  # its heads have the same shape in both
        (MEMORY, {}, r"lstms.0.weight_ih_l0: missing saved, \(16, 4\) in this run"),
        ({}, {"normalize": True}, "saved, missing in this run"),
        ({}, {"hidden_units": 5}, r"body.weights.0: \(2, 3, 5\) saved, \(2, 3, 4\) in this run"),
    ],
)
def test_a_network_of_another_shape_is_refused(here: dict[str, Any], there: dict[str, Any], says: str):
    with pytest.raises(ConfigError, match=f"behavior 'Walker' cannot start from first: .*{says}"):
        initialize(learner(here), learner(there).state_dict(), Path("first"))


@pytest.mark.parametrize("name", ["nature_cnn", "no_such_module:Encoder"])
def test_what_a_network_cannot_be_made_of_names_the_behavior(name: str):
    settings = behavior_settings(network={"vis_encode_type": name})
    with pytest.raises((ConfigError, PluginError), match=f"^behavior 'Walker': .*vis_encode_type '{name}'"):
        Learner("Walker", spec_of((3, 8, 8), continuous=1), settings, CPU, 0, inference=False)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("trainer", "mates", "times"), [("ppo", 3, 1), ("sac", 3, 1), ("poca", 3, 0), ("ppo", 0, 0), ("sac", 0, 0)]
)
def test_group_rewards_under_a_trainer_that_is_not_made_for_groups_are_warned_of_once(
    trainer: str, mates: int, times: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    hyper = {"batch_size": 16, "buffer_size": 60}
    tree = settings(
        "Any", 240, trainer_type=trainer, hyperparameters=hyper, network_settings={"hidden_units": 8, "num_layers": 1}
    )
    env = Anything((ObsSpec("seen", (2,)),), ActionSpec(branches=(2,)), mates=mates)
    palaestra.train(tree, env=env, results_dir=str(tmp_path), seed=0)
    message = capsys.readouterr().out.replace("\n", " ")
    assert message.count("Group rewards arrive") == times
    assert times == 0 or f"{trainer} adds them to each agent's own rewards" in " ".join(message.split())
    assert times == 0 or "trainer_type: poca does" in " ".join(message.split())


@pytest.mark.parametrize(
    ("size", "horizon", "warns"),
    [(60, 64, True), (96, 64, False), (60, 10, False)],
    ids=("short", "long enough", "short horizon"),
)
def test_rollouts_with_few_decisions_of_each_agent_are_warned_of_once_where_the_number_of_areas_was_chosen(
    size: int, horizon: int, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tree = settings("Any", 3 * size, time_horizon=horizon, hyperparameters={"batch_size": 12, "buffer_size": size})
    palaestra.train(
        tree,
        env=Anything((ObsSpec("seen", (2,)),), ActionSpec(branches=(2,)), areas=6),
        results_dir=str(tmp_path),
        seed=0,
    )
    message = " ".join(capsys.readouterr().out.split())
    assert message.count("of each of 6 agents") == warns
    if warns:
        assert (
            "buffer_size 60 holds 10 decisions of each of 6 agents, and rewards that come later are only estimated"
            in message
        )
        assert "up to time_horizon: buffer_size 384" in message


class Seen(PPO):
    """Notes the sizes of its rollouts."""

    shapes: ClassVar[list[tuple[int, int]]] = []

    def update(self, rollout: Rollout, step: int) -> Metrics:
        self.shapes.append(rollout.shape)
        return super().update(rollout, step)


@pytest.mark.parametrize(
    ("areas", "size", "horizon", "ticks"),
    [
        (None, 120, 128, 128),
        (None, 120, 40, 40),
        (None, 120, 1000, 128),
        (None, 192, 128, 16),
        (None, 120, 10, 10),
        (1, 12, 40, 40),
        (12, 120, 128, 10),
    ],
)
def test_rollouts_wait_for_every_agent_of_an_environment_with_its_own_number_of_areas(
    areas: int | None,
    size: int,
    horizon: int,
    ticks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """3DBall has 12 agents. In the original an agent's decisions count once it made `time_horizon` of them or its
    episode ended.
    """
    monkeypatch.setattr(Seen, "shapes", [])
    monkeypatch.setattr("palaestra.trainers.ppo.PPO", Seen)
    agents = areas or 12
    hyper = {"batch_size": 5 * agents, "buffer_size": size, "num_epoch": 1}
    tree = settings("3DBall", 2 * ticks * agents, time_horizon=horizon, hyperparameters=hyper)
    palaestra.train(
        {**tree, "env_settings": {"env_path": "3DBall", "num_areas": areas}}, results_dir=str(tmp_path), seed=0
    )
    assert Seen.shapes == [(ticks, agents)] * 2
    waits = f"a rollout waits for {ticks} of each ({ticks * agents:,} in all)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert waits == (ticks * agents > size)


def test_a_rollout_waits_no_longer_than_the_run_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Seen, "shapes", [])
    monkeypatch.setattr("palaestra.trainers.ppo.PPO", Seen)
    tree = settings("3DBall", 480, time_horizon=128, hyperparameters={"batch_size": 60, "buffer_size": 120})
    palaestra.train({**tree, "env_settings": {"env_path": "3DBall"}}, results_dir=str(tmp_path), seed=0)
    assert Seen.shapes == [(40, 12)]


def test_the_current_value_of_a_hyperparameter_that_was_set_to_0_is_0():
    one = learner({})
    assert current_value(one, "beta") == 5e-3
    one.change({"beta": 0.0})
    assert current_value(one, "beta") == 0.0


@pytest.mark.parametrize(("schedule", "now"), [("constant", 1.0), ("linear", 0.75), ("cosine", 0.9267767)])
def test_the_current_value_of_a_learning_rate_is_that_of_its_schedule(schedule: str, now: float):
    hyper = {"buffer_size": 1000, "learning_rate": 1.0, "learning_rate_schedule": schedule}
    one = learner({}, trainer_type="sac", hyperparameters=hyper, max_steps=400)
    one.collector.decisions = 100
    assert current_value(one, "learning_rate") == pytest.approx(now)
    assert one.trainer.schedule(100) == pytest.approx(now)


@pytest.mark.parametrize(
    ("trainer", "hyper", "step", "said"),
    [
        (
            "ppo",
            {"batch_size": 500, "buffer_size": 1001},
            0,
            "buffer_size 1,001 is more than max_steps (1,000): the",
        ),
        ("poca", {"batch_size": 500, "buffer_size": 1001}, 0, "before the first update; a larger --max-steps"),
        ("ppo", {"batch_size": 100, "buffer_size": 400}, 0, "(1,000) is enough for 2 updates of buffer_size 400: a"),
        ("ppo", {"batch_size": 100, "buffer_size": 333}, 0, ""),
        (
            "ppo",
            {"batch_size": 100, "buffer_size": 400},
            601,
            "than the 399 decisions until max_steps (1,000): this",
        ),
        ("ppo", {"batch_size": 100, "buffer_size": 400}, 600, ""),
        ("ppo", {"batch_size": 100, "buffer_size": 400}, 1000, ""),
        ("sac", {"buffer_init_steps": 1000}, 0, "buffer_init_steps 1,000 is not less than max_steps (1,000): the run"),
        ("sac", {"batch_size": 1000}, 0, "lets it learn"),
        ("sac", {"buffer_init_steps": 999, "buffer_size": 2000}, 0, ""),
    ],
)
def test_a_session_too_short_for_its_settings_warns_as_it_begins(
    trainer: str, hyper: dict[str, int], step: int, said: str
):
    one = learner({}, trainer_type=trainer, hyperparameters=hyper, max_steps=1000)
    warnings = list[str]()
    one.messages.begin(step, warnings.append)
    assert [said in warning for warning in warnings] == ([True] if said else []), warnings


def test_behaviors_that_the_environment_lacks_cause_no_warnings_of_a_short_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    block = {"trainer_type": "ppo", "max_steps": 64, "hyperparameters": {"batch_size": 16, "buffer_size": 128}}
    tree = settings("Bandit", 64, hyperparameters=block["hyperparameters"])
    tree["behaviors"] |= {name: {**block, "self_play": {}} for name in ("Soccer", "Tennis")}
    palaestra.train(tree, env=Bandit(8, continuous=1), results_dir=str(tmp_path), run_id="few", seed=1)
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("is more than max_steps (64)") == said.count("Bandit: buffer_size 128 is more than max") == 1, (
        said
    )
    warnings = list[str]()
    learner({}, max_steps=64, self_play={}, hyperparameters={"buffer_size": 8}).messages.begin(0, warnings.append)
    assert "team_change 100,000 is more than max_steps (64): the learning team never changes" in warnings[0]
