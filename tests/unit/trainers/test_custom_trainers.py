"""Trainers of one's own: the examples and the guide's learn, resume to the same digits and leave models; what is wrong
is said in words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from small_runs import differences, settings, state
from tiny_envs import CPU, Bandit, spec_of

import palaestra
from palaestra.core.errors import ConfigError, PluginError
from palaestra.core.plugins import import_user_module
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import load
from palaestra.runtime.storage.networks import load_networks
from palaestra.testing import check_trainer
from palaestra.testing.check_trainer import OVERRIDDEN, SPECS
from palaestra.trainers.base import make_trainer, refuse
from palaestra.trainers.behavior_settings import BehaviorSettings, trainer_class
from palaestra.trainers.ppo import PPO
from palaestra.trainers.sac import SAC

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides" / "extend"
SMALL = {
    "examples.dqn:DQN": {
        "rollout_size": 64,
        "batch_size": 16,
        "buffer_size": 500,
        "epsilon_steps": 500,
        "learning_rate": 5e-3,
    },
    "examples.a2c:A2C": {"rollout_size": 32, "learning_rate": 2e-2},
}
EVERYTHING = BehaviorSpec(
    (
        ObsSpec("image", (3, 20, 20)),
        ObsSpec("vector", (5,)),
        ObsSpec("goal", (2,), goal=True),
        ObsSpec("entities", (4, 3)),
    ),
    ActionSpec(branches=(4, 2, 3)),
)

pytestmark = pytest.mark.usefixtures("at_root")


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch):
    """Examples are named from the project's root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


def behavior_settings(name: str, **network: Any) -> BehaviorSettings:
    network = {"hidden_units": 16, "normalize": True, **network}
    return BehaviorSettings.model_validate(
        {"trainer_type": name, "hyperparameters": SMALL[name], "network_settings": network}
    )


def test_the_dqn_keeps_the_contract_and_refuses_numbers():
    trainer = trainer_class("examples.dqn:DQN")
    given = behavior_settings("examples.dqn:DQN")
    refused = check_trainer(trainer, given, SPECS[0], SPECS[1], EVERYTHING)
    assert refused == ("DQN cannot learn this: it takes discrete actions alone, and the behavior has 2 continuous",)


def test_the_a2c_keeps_the_contract_with_and_without_memory():
    trainer = trainer_class("examples.a2c:A2C")
    assert check_trainer(trainer, behavior_settings("examples.a2c:A2C"), *SPECS[:3], EVERYTHING) == ()
    memory = {"sequence_length": 5, "memory_size": 8}
    check_trainer(trainer, behavior_settings("examples.a2c:A2C", memory=memory), SPECS[1], SPECS[4])


def play(
    name: str, results: Path, run_id: str, until: int | None = None, branches: tuple[int, ...] = (3,), **more: Any
) -> palaestra.Result:
    """A game of single decisions; stops at the first summary from `until` on."""
    stop: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    tree = settings("Bandit", 1024, trainer_type=name, hyperparameters=SMALL[name], summary_freq=256)
    env = Bandit(16, branches=(3, 2))
    return palaestra.train(
        tree, env=env, results_dir=str(results), run_id=run_id, seed=1, quiet=True, callbacks=stop, **more
    )


@pytest.mark.parametrize("name", SMALL)
def test_an_example_resumes_to_the_same_digits_and_its_model_plays_well(name: str, tmp_path: Path):
    whole = play(name, tmp_path, "whole")
    assert not play(name, tmp_path, "parts", until=512).finished
    resumed = play(name, tmp_path, "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    network, spec = load_networks(resumed.folder)["Bandit"]
    assert spec.action == ActionSpec(branches=(3, 2))
    assert network.state_dict().keys() == state(whole.folder)["Bandit"]["trainer"]["network"].keys()
    policy = palaestra.load_policy(resumed.models["Bandit"], seed=0)
    for side in (1.0, -1.0):
        choices = policy.act([torch.tensor([[side, 1.0]] * 50).numpy()]).discrete
        assert ((choices == (side > 0)).mean(0) > 0.7).all()  # chance: a third and a half


@pytest.mark.parametrize("name", SMALL)
def test_an_example_is_shorter_than_175_lines_and_shows_settings_that_load(name: str):
    file = ROOT / (name.partition(":")[0].replace(".", "/") + ".py")
    assert len(file.read_text(encoding="utf-8").splitlines()) < 175
    (block,) = load(file.with_suffix(".yaml")).settings.behaviors.values()
    assert block.trainer_type == name
    given = yaml.safe_load(file.with_suffix(".yaml").read_text())["behaviors"]["CartPole-v1"]["hyperparameters"]
    assert given.items() <= block.hyperparameters.model_dump().items()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"network_settings": {"memory": {}}}, "it has no memory: leave out network_settings.memory$"),
        (
            {"reward_signals": {"extrinsic": {}, "rnd": {}}},
            "it does not learn from the reward signals rnd, only from extrinsic$",
        ),
        ({"behavioral_cloning": {"demo_path": "x"}}, "it does not imitate: leave out behavioral_cloning$"),
        ({"network_settings": {"compile": True}}, "it does nothing with network_settings.compile: set it to false$"),
    ],
)
def test_what_a_trainer_cannot_do_is_refused_in_one_line(more: dict[str, Any], message: str):
    given = BehaviorSettings.model_validate({"trainer_type": "examples.dqn:DQN", **more})
    with pytest.raises(ConfigError, match=f"^DQN cannot learn this: {message}"):
        make_trainer(spec_of((2,), branches=(2,)), given, CPU, 0)


def test_a_trainer_may_support_what_others_do_not():
    given = BehaviorSettings.model_validate({"network_settings": {"bfloat16": True}})
    refuse("Mine", spec_of((2,), branches=(2,)), given, speedups=("bfloat16",))


def test_the_refusal_of_a_run_names_the_behavior(tmp_path: Path):
    tree = settings("Bandit", trainer_type="examples.dqn:DQN", hyperparameters={})
    with pytest.raises(
        ConfigError,
        match=r"^behavior 'Bandit': DQN cannot learn this: it takes discrete .* has 2 continuous, discrete 3$",
    ):
        palaestra.train(
            tree, env=Bandit(4, continuous=2, branches=(3,)), results_dir=str(tmp_path), run_id="refused", quiet=True
        )


def refused(name: str, hyper: str = "{}") -> str:
    Path("own.yaml").write_text(
        f"behaviors:\n  Ball:\n    trainer_type: {name}\n    hyperparameters: {hyper}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError) as error:
        load(Path("own.yaml"))
    return str(error.value)


NUMBER = 3


class Half:
    """Neither Settings nor what saves it."""

    def update(self) -> None: ...


class Unset(Half):
    Settings = dict
    make_network = state_dict = load_state_dict = print


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            f"{__name__}:Half",
            "lacks Settings, make_network, state_dict, load_state_dict; the guide 'Write a trainer' explains",
        ),
        (
            f"{__name__}:Unset",
            "its Settings is <class 'dict'>; expected a class that inherits from palaestra.core.settings.Settings",
        ),
        (f"{__name__}:NUMBER", "is 3; expected a class"),
        (
            "pp",
            r"no trainer is named 'pp'; did you mean 'ppo'\? \(there are: ppo, .*; your own as package.module:Class\)",
        ),
        ("'examples.dqn:'", "no trainer is named 'examples.dqn:'"),
    ],
)
def test_a_class_that_is_no_trainer_is_refused_with_file_and_line(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert re.search(rf"^own.yaml:3: behaviors.Ball.trainer_type: .*{message}", refused(name))


def test_hyperparameters_are_checked_by_the_trainers_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    message = refused("examples.dqn:DQN", "{n_step: 3, tau: 2}")
    assert "own.yaml:4: behaviors.Ball.hyperparameters.n_step: unknown key; did you mean 'n_steps'?" in message
    assert "own.yaml:4: behaviors.Ball.hyperparameters.tau: expected a number of at most 1, got 2" in message


class Bare:
    """Has no policy, and a rollout of no size."""

    Settings = type(BehaviorSettings())
    rollout_size = 0
    needs = None
    network = None
    make_network = update = state_dict = load_state_dict = print

    def __init__(self, *_: Any) -> None: ...


class Empty(Bare):
    policy = None


@pytest.mark.parametrize(
    ("cls", "message"), [(Bare, "lacks policy; the guide"), (Empty, "rollout_size is 0; expected a whole number")]
)
def test_an_instance_without_its_members_is_refused(cls: type, message: str):
    given = BehaviorSettings.model_validate({"trainer_type": f"{__name__}:{cls.__name__}", "hyperparameters": {}})
    with pytest.raises(PluginError, match=message):
        make_trainer(spec_of((2,), branches=(2,)), given, CPU, 0)


class OneOfTwo(RankGroup):
    """Rank 0 of two, which meets nobody here."""

    size = 2


def test_in_several_ranks_a_trainer_gets_the_group_and_one_without_that_parameter_is_refused():
    spec = spec_of((2,), branches=(2,))
    group = OneOfTwo()
    trainer: Any = make_trainer(spec, behavior_settings("examples.a2c:A2C"), CPU, 0, group)
    assert trainer.group is group
    assert trainer.rollout_size == SMALL["examples.a2c:A2C"]["rollout_size"] / 2
    with pytest.raises(ConfigError, match=r"DQN' cannot learn in 2 processes: its constructor has no parameter"):
        make_trainer(spec, behavior_settings("examples.dqn:DQN"), CPU, 0, group)


def test_a_trainer_with_a_group_draws_actions_of_its_own(monkeypatch: pytest.MonkeyPatch):
    trainer = trainer_class("examples.a2c:A2C")
    monkeypatch.setattr(RankGroup, "own_seed", lambda _, seed: seed)
    with pytest.raises(PluginError, match="rank 1 has the random stream of rank 0"):
        check_trainer(trainer, behavior_settings("examples.a2c:A2C"), SPECS[0])


def test_a_trainer_with_a_group_must_average_its_gradients():
    def apart(spec: BehaviorSpec, given: BehaviorSettings, device: Any, seed: int, group: RankGroup = ALONE) -> Any:
        trainer: Any = make_trainer(spec, given, device, seed, group)
        trainer.group = ALONE
        return trainer

    with pytest.raises(PluginError, match=r"changed its weights without group\.average_gradients"):
        check_trainer(apart, behavior_settings("examples.a2c:A2C"), SPECS[0])


def page(name: str) -> str:
    """The text of a guide to trainers."""
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


def python_blocks(name: str) -> list[str]:
    """A guide's blocks of Python."""
    return re.findall(r"^```python\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, str]:
    """The module that the guide builds, saved in the current folder, and what it says to test it with."""
    *blocks, last = python_blocks("reinforce")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "reinforce.py").write_text("\n".join(blocks), encoding="utf-8")
    file = re.search(r"`reinforce.yaml`:\n+```yaml\n(.*?)^```", page("reinforce"), re.MULTILINE | re.DOTALL)
    assert file is not None
    (tmp_path / "reinforce.yaml").write_text(file[1], encoding="utf-8")
    return import_user_module("reinforce", "guide"), last


def test_the_trainer_of_the_guide_keeps_the_contract(guide: tuple[ModuleType, str]):
    _, test = guide
    names: dict[str, Any] = {}
    exec(compile(test, "guide", "exec"), names)
    assert names["refused"] == ()


def saved_subclasses(folder: Path) -> tuple[list[str], str]:
    """Names of the subclasses that the guide prints, saved in a folder as it says, and what it tests one with."""
    *blocks, test = python_blocks("change-an-algorithm")
    names = []
    for block in blocks:
        before = page("change-an-algorithm").partition(block)[0]
        module = re.findall(r"[Ss]ave\sthis as `(\w+)\.py`:\n+```python\n$", before)[0]
        (folder / f"{module}.py").write_text(block, encoding="utf-8")
        names += [f"{module}:{each}" for each in re.findall(r"^class (\w+)", block, re.MULTILINE)]
    return names, test


def test_the_subclasses_of_the_guide_keep_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (_, *names), test = saved_subclasses(tmp_path)
    exec(compile(test, "guide", "exec"), {})
    assert names == ["warm_entropy:WarmEntropyPPO", "value_clip:ValueClipPPO"]
    hyper = {"batch_size": 16, "buffer_size": 64}
    for name in names:
        given = BehaviorSettings.model_validate({"trainer_type": name, "hyperparameters": hyper})
        check_trainer(trainer_class(name), given, SPECS[1])


@pytest.mark.parametrize("which", [1, 2])
def test_a_subclass_of_the_guide_resumes_to_the_same_digits_and_its_model_plays(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    name = saved_subclasses(tmp_path)[0][which]
    monkeypatch.setitem(SMALL, name, {"batch_size": 16, "buffer_size": 64, "beta": 0.01})
    whole = play(name, tmp_path, "whole")
    assert not play(name, tmp_path, "parts", until=512).finished
    resumed = play(name, tmp_path, "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    policy = palaestra.load_policy(resumed.models["Bandit"], seed=0)
    assert policy.act([torch.ones(3, 2).numpy()]).discrete.shape == (3, 2)
    measured = (resumed.folder / "metrics.jsonl").read_text(encoding="utf-8")
    assert ("Losses/Clipped Values" in measured) == name.startswith("value_clip")


def test_the_guide_lists_the_methods_to_override_and_their_parameters():
    tables = page("methods-to-override").partition("## What the methods are given")[0]
    on_policy, off_policy = re.split(r"^\| SAC \|", tables, flags=re.MULTILINE)
    for table, kind in ((on_policy, PPO), (off_policy, SAC)):
        listed = dict(re.findall(r"^\| `(\w+)\((.*?)\)`", table, re.MULTILINE))
        assert list(listed) == [name for name in listed if name in OVERRIDDEN]
        assert {name for name in OVERRIDDEN if hasattr(kind, name)} == listed.keys()
        for name, parameters in listed.items():
            known = list(inspect.signature(getattr(kind, name)).parameters)[1:]
            assert parameters.split(", ") == [each for each in known if each != "again"]


def test_the_trainer_of_the_guide_learns(guide: tuple[ModuleType, str], tmp_path: Path):
    rewards = list[float]()

    def note(summary: Summary) -> None:
        rewards.append(summary.mean)

    small = {"max_steps": 16000, "summary_freq": 4000, "hyperparameters.rollout_size": 1024}
    result = palaestra.train(
        "reinforce.yaml",
        seed=1,
        quiet=True,
        results_dir=str(tmp_path),
        run_id="first",
        callbacks=[note],
        settings=small,
    )
    assert result.finished
    assert rewards[-1] > 1.5 * rewards[0]
