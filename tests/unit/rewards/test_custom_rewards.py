"""Reward signals of one's own: the example's and the guide's are trained with, resume to the same digits; what is wrong
is said.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from any_transitions import CPU, EVERYTHING, transitions
from small_runs import differences, settings, state
from tiny_envs import Bandit

import palaestra
from palaestra.cli.config import unread
from palaestra.core.errors import ConfigError, PluginError
from palaestra.core.plugins import registry
from palaestra.parallel.rank_group import RankGroup
from palaestra.rewards.settings import SignalSettings, UnreadSignalSettings
from palaestra.rewards.signals import RewardSignals, title
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import load, to_yaml
from palaestra.runtime.storage.networks import load_networks
from palaestra.runtime.storage.trust import is_own, network_code, sign
from palaestra.trainers.behavior_settings import BehaviorSettings

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "extend" / "own-reward.md"
NAME = "examples.own_reward:Novelty"
SIGNALS = {"extrinsic": {}, NAME: {"strength": 0.1, "bits": 6}}
TRAINERS = {
    "ppo": {"batch_size": 32, "buffer_size": 128},
    "sac": {"batch_size": 32, "buffer_init_steps": 64, "steps_per_update": 8},
    "poca": {"batch_size": 32, "buffer_size": 128},
}


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch):
    """Examples are named from the project's root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


def play(
    trainer: str, results: Path, run_id: str, until: int | None = None, callbacks: Any = (), **more: Any
) -> palaestra.Result:
    """A game of single decisions; stops at the first summary from `until` on."""
    stop: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    tree = settings(
        "Bandit", 512, trainer_type=trainer, hyperparameters=TRAINERS[trainer], summary_freq=128, reward_signals=SIGNALS
    )
    env = Bandit(16, branches=(3, 2))
    run = {"results_dir": str(results), "run_id": run_id, "seed": 1, "quiet": True}
    return palaestra.train(tree, env=env, callbacks=[*stop, *callbacks], **run, **more)


@pytest.mark.few(1)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_with_the_example_resumes_to_the_same_digits(trainer: str, tmp_path: Path):
    whole = play(trainer, tmp_path, "whole")
    assert not play(trainer, tmp_path, "parts", until=256).finished
    resumed = play(trainer, tmp_path, "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    signal = state(whole.folder)["Bandit"]["trainer"]["signals"][NAME]
    assert signal["network"]["counts"].sum() > 100
    assert "Bandit" in load_networks(resumed.folder)


def test_the_examples_reward_falls_as_observations_repeat_and_is_written_under_its_class(tmp_path: Path):
    paid = list[float]()
    play("ppo", tmp_path, "paid", callbacks=[lambda summary: paid.append(summary.values["Policy/Novelty Reward"])])
    assert len(paid) >= 3
    assert paid[-1] < 0.5 * paid[0]


def test_the_example_shows_settings_that_load():
    loaded = load(ROOT / "examples" / "own_reward.yaml")
    (block,) = loaded.settings.behaviors.values()
    assert type(block.reward_signals[NAME]).__name__ == "NoveltySettings"
    assert block.reward_signals[NAME].model_dump() == {"gamma": 0.9, "strength": 0.02, "normalize": False, "bits": 12}
    assert "bits: 12" in to_yaml(loaded.settings)


def test_an_entry_point_gives_a_signal_a_name(monkeypatch: pytest.MonkeyPatch):
    points = {**registry("rewards")._points, "novelty": EntryPoint("novelty", NAME, "palaestra.rewards")}
    monkeypatch.setattr(registry("rewards"), "_points", points)
    block = BehaviorSettings.model_validate({"reward_signals": {"novelty": {"bits": 4}}})
    signals = RewardSignals(EVERYTHING, block.reward_signals, CPU, 0)
    assert signals.of_batch(transitions(EVERYTHING, 5)).tolist() == [[1.0]] * 5


def test_the_order_of_signals_does_not_depend_on_the_files():
    for names in ((NAME, "rnd", "extrinsic"), ("extrinsic", NAME, "rnd")):
        block = BehaviorSettings.model_validate({"reward_signals": dict.fromkeys(names)})
        assert list(block.reward_signals) == ["extrinsic", "rnd", NAME]


class Half:
    """Has neither Settings nor a way to learn."""

    ignores_ends = True
    reward = state_dict = load_state_dict = print


class Unset(Half):
    Settings = dict
    learn = learn_statistics = print


class Wrong(Unset):
    """Answers a matrix."""

    Settings = SignalSettings

    def __init__(self, *_: Any) -> None: ...

    def reward(self, batch: Any) -> Any:
        return batch.reward.unsqueeze(1)


NUMBER = 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            f"{__name__}:Half",
            "lacks Settings, learn, learn_statistics; the guide 'Add a reward of your own' explains each of them",
        ),
        (
            f"{__name__}:Unset",
            "its Settings is <class 'dict'>; expected a class that inherits from "
            "palaestra.rewards.settings.SignalSettings",
        ),
        (f"{__name__}:NUMBER", "is 3; expected a class"),
        (
            "curiousity",
            "no such reward signal; did you mean 'curiosity'\\? \\(there are: extrinsic, .*; your own as "
            "package.module:Class\\)",
        ),
        ("'examples.own_reward:'", "no such reward signal"),
    ],
)
def test_a_class_that_is_no_reward_signal_is_refused_with_file_and_line(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert re.search(
        rf"^own.yaml:4: behaviors.Ball.reward_signals.*{message}", refused(f"{name}: {{}}", tmp_path, monkeypatch)
    )


def refused(signal: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    Path("own.yaml").write_text(f"behaviors:\n  Ball:\n    reward_signals:\n      {signal}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(Path("own.yaml"))
    return str(error.value)


def test_settings_are_checked_by_the_signals_own_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    message = refused(f"{NAME}: {{bit: 3}}", tmp_path, monkeypatch)
    assert f"own.yaml:4: behaviors.Ball.reward_signals.{NAME}.bit: unknown key; did you mean 'bits'?" in message
    assert "expected a number" in refused(f"{NAME}: {{bits: 30}}", tmp_path, monkeypatch)


def test_a_reward_of_the_wrong_shape_is_refused():
    signals = RewardSignals(EVERYTHING, {f"{__name__}:Wrong": SignalSettings()}, CPU, 0)
    with pytest.raises(
        PluginError, match=r"Wrong' returned a tensor \(5, 1\) of torch.float32 for 5 transitions; expected \(5,\)"
    ):
        signals.of_batch(transitions(EVERYTHING, 5))


def test_reading_settings_without_the_users_code_imports_nothing_and_says_so(tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_text(
        "behaviors: {A: {reward_signals: {extrinsic: {}, 'not_there:Mine': {gamma: 0.5, size: 3}}}}", encoding="utf-8"
    )
    read = load(file, own_code=False).settings
    signal = read.behaviors["A"].reward_signals["not_there:Mine"]
    assert isinstance(signal, UnreadSignalSettings)
    assert (signal.gamma, signal.model_dump()["size"]) == (0.5, 3)
    assert unread(read) == [
        "the settings of 'not_there:Mine' are not checked, as that means running its code: --trust does"
    ]
    assert network_code(read) == [(("behaviors", "A", "reward_signals", "not_there:Mine"), "not_there:Mine")]


def test_a_folder_is_the_users_own_whether_its_signals_were_imported_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = ROOT / "examples" / "own_reward.yaml"
    sign(tmp_path, load(file).settings)
    assert is_own(tmp_path, load(file, own_code=False).settings)


def test_tags_have_the_name_of_the_class():
    assert [title(name) for name in ("extrinsic", "gail", "rnd", NAME)] == ["Extrinsic", "Gail", "Rnd", "Novelty"]


@pytest.mark.slow
def test_the_signal_of_the_guide_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    *blocks, test = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bonus.py").write_text("\n".join(blocks), encoding="utf-8")
    exec(compile(test, "guide", "exec"), {})
    bonus = sys.modules.pop("bonus")
    signal = bonus.Bonus(bonus.BonusSettings(), EVERYTHING, CPU, 0)
    batch = transitions(EVERYTHING, 32)
    losses = torch.stack([signal.learn(batch)["Losses/Bonus Loss"] for _ in range(50)])
    assert losses[-1] < losses[0]


class Grouped(Wrong):
    """Knows with whom it learns."""

    def __init__(self, *_: Any, group: RankGroup) -> None:
        self.group = group


class OneOfTwo(RankGroup):
    """Rank 0 of two, which meets nobody here."""

    size = 2


def test_in_several_ranks_a_signal_gets_the_group_and_one_without_that_parameter_is_refused():
    group = OneOfTwo()
    signals = RewardSignals(EVERYTHING, {f"{__name__}:Grouped": SignalSettings()}, CPU, 0, group)
    (grouped,) = signals._learned.values()
    assert isinstance(grouped, Grouped)
    assert grouped.group is group
    with pytest.raises(ConfigError, match=r"Wrong' cannot learn in 2 processes: its constructor has no parameter"):
        RewardSignals(EVERYTHING, {f"{__name__}:Wrong": SignalSettings()}, CPU, 0, group)
