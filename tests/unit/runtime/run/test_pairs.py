"""Every two features of a run once together: a covering table of short runs, and what must hold in each."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from demo_files import episodes, write
from pair_world import PairWorld
from small_runs import differences, state

import palaestra
from palaestra.runtime.logging.tracker import Summary

FEATURES: dict[str, tuple[Any, ...]] = {
    "trainer": ("ppo", "sac", "poca"),
    "threaded": (False, True),
    "copies": (1, 2),
    "ranks": (1, 2),
    "wrapped": (False, True),
    "late": (False, True),
    "init": ("", "init_path", "initialize_from"),
    "keep_best": ("", "metric", "evaluated"),
    "stop_when": (False, True),
    "self_play": (False, True),
    "curriculum": ("", "sampler", "require_reset"),
    "signals": ("", "gail", "rnd", "amp"),
    "memory": (False, True),
    "two_obs": (False, True),
    "masks": (False, True),
    "groups": (False, True),
    "interrupted": (False, True),
    "critic_only": (False, True),
    "mirror": (False, True),
    "soft": ("", "residual", "bins", "hold", "prior"),
    "opponents": ("", "prioritized", "exploiter"),
}
Case = dict[str, Any]
STEPS = 400
MIRROR = {
    "observations": {"place": {"negate": [0]}, "mor*": "same"},
    "actions": {"continuous": {"negate": [0]}, "discrete": {0: {"swap": [[0, 2]]}}},
}
OPPONENTS = {"prioritized": {"opponents": "prioritized"}, "exploiter": {"exploiter": {"share": 0.25, "max_steps": 100}}}


def allowed(case: Case) -> bool:
    """Whether these can be together: a policy is not evaluated against itself, some settings are of one trainer or need
    another, and nobody knows what is remembered of an episode's mirror image.
    """
    both = [
        ("self_play", True, "keep_best", "evaluated"),
        ("mirror", True, "trainer", "poca"),
        ("mirror", True, "memory", True),
        ("critic_only", True, "two_obs", False),
        ("soft", "residual", "memory", True),
        *(("opponents", value, "self_play", False) for value in FEATURES["opponents"][1:]),
        *(("opponents", value, "keep_best", "evaluated") for value in FEATURES["opponents"][1:]),
        *(("soft", value, "trainer", other) for value in FEATURES["soft"][1:] for other in ("ppo", "poca")),
    ]
    return not any(case.get(one) == first and case.get(other) == second for one, first, other, second in both)


def table() -> list[Case]:
    """Cases in which every pair of values that can be together is at least once; greedily, always the same."""
    names = list(FEATURES)
    wanted = {
        (one, first, other, second)
        for one, other in itertools.combinations(names, 2)
        for first in FEATURES[one]
        for second in FEATURES[other]
        if allowed({one: first, other: second})
    }
    cases = list[Case]()
    while wanted:
        one, first, other, second = min(wanted, key=repr)
        case: Case = {one: first, other: second}
        for name in names:
            if name not in case:
                case[name] = max(
                    (value for value in FEATURES[name] if allowed({**case, name: value})),
                    key=lambda value, name=name, case=case: len(wanted & set(pairs({**case, name: value}))),
                )
        wanted -= set(pairs(case))
        cases.append(case)
    return cases


def pairs(case: Case) -> Iterator[tuple[str, Any, str, Any]]:
    """The pairs of values in a case."""
    for one, other in itertools.combinations([name for name in FEATURES if name in case], 2):
        yield one, case[one], other, case[other]


CASES = table()


def title(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.items() if value is True or value not in (False, "", 1))


def test_the_table_has_every_pair():
    for one, other in itertools.combinations(FEATURES, 2):
        for first, second in itertools.product(FEATURES[one], FEATURES[other]):
            if allowed({one: first, other: second}):
                assert any(case[one] == first and case[other] == second for case in CASES), (one, first, other, second)
    assert len(CASES) <= 40


def config(case: Case, place: Path, first: Path | None) -> dict[str, Any]:
    """The settings of a case. `first`: a run to start from."""
    sac = case["trainer"] == "sac"
    hyper: dict[str, Any] = {"batch_size": 32, "buffer_size": 400 if sac else 64, "learning_rate": 1e-3}
    hyper |= {"buffer_init_steps": 64, "steps_per_update": 20} if sac else {"num_epoch": 2}
    network: dict[str, Any] = {"hidden_units": 16, "num_layers": 1, "normalize": True}
    if case["memory"]:
        network["memory"] = {"memory_size": 8, "sequence_length": 4}
    if case["critic_only"]:
        network["critic_only"] = ["more"]
    if case["soft"]:
        prior = {"prior_data": {"demo_path": str(demonstration(case, place))}}
        added = {
            "residual": {},
            "bins": {"critic_bins": 11, "policy_delay": 2},
            "hold": {"noise_hold": 4},
            "prior": prior,
        }
        hyper |= added[case["soft"]]
        network |= {"body": "residual"} if case["soft"] == "residual" else {}
    signals: dict[str, Any] = {"extrinsic": {"gamma": 0.9, "strength": 1.0}}
    if case["signals"]:
        signals[case["signals"]] = {"gamma": 0.9, "strength": 0.1, "network_settings": {"hidden_units": 8}}
    if case["signals"] == "gail":
        signals["gail"]["demo_path"] = str(demonstration(case, place))
    elif case["signals"] == "amp":
        signals["amp"] |= {"clips": str(demonstration(case, place)), "kept_pairs": 20}
    block: dict[str, Any] = {
        "trainer_type": case["trainer"],
        "hyperparameters": hyper,
        "network_settings": network,
        "reward_signals": signals,
        "max_steps": STEPS,
        "time_horizon": 8,
        "summary_freq": 100,
        "checkpoint_interval": 150,
        "threaded": case["threaded"],
    }
    if case["init"] == "init_path":
        block["init_path"] = str(first)
    if case["keep_best"]:
        metric = "Environment/Episode Length" if case["keep_best"] == "metric" else None
        block["keep_best"] = {"metric": metric, "episodes": 4, "every": 100}
    if case["stop_when"]:
        block["stop_when"] = {"at_least": 1e9, "no_progress": 10**6}
    if case["self_play"]:
        block["self_play"] = {"save_steps": 60, "team_change": 150, "swap_steps": 30, "window": 3}
        block["self_play"] |= {"": {}, **OPPONENTS}[case["opponents"]]
    if case["mirror"]:
        block["mirror"] = MIRROR
    tree: dict[str, Any] = {"default_settings": block}
    if case["curriculum"] == "sampler":
        sampler = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 1.5}}
        tree["environment_parameters"] = {"width": sampler}
    elif case["curriculum"]:
        criteria = {"measure": "progress", "behavior": "Main", "threshold": 0.3, "require_reset": True}
        lessons = [{"name": "narrow", "completion_criteria": criteria, "value": 0.5}, {"name": "wide", "value": 1.5}]
        tree["environment_parameters"] = {"width": {"curriculum": lessons}}
    return tree


def demonstration(case: Case, place: Path) -> Path:
    """A recording whose form is that of the world."""
    spec = PairWorld(two_obs=case["two_obs"]).spec
    path = place / f"demo{int(case['two_obs'])}.demo"
    if not path.is_file():
        write(path, episodes(8, 8, 8, spec=spec), spec, key="Main")
    return path


def options(case: Case) -> dict[str, Any]:
    """The world's options."""
    world = {name: True for name in ("wrapped", "masks", "groups", "two_obs") if case[name]}
    if case["groups"] and case["self_play"]:
        del world["groups"]  # two agents an area are either mates or rivals
    return {**world, **({"teams": True} if case["self_play"] else {}), **({"late": 9} if case["late"] else {})}


def train(case: Case, place: Path, run_id: str, first: Path | None, **more: Any) -> Path:
    """Trains a case in this process. Returns its folder."""
    named = {"initialize_from": first.name} if case["init"] == "initialize_from" and first is not None else {}
    if more.get("resume"):
        named = {}
    result = palaestra.train(
        config(case, place, first),
        env="python:pair_world:make",
        env_options=options(case),
        num_envs=case["copies"],
        num_areas=4,
        results_dir=str(place),
        run_id=run_id,
        seed=5,
        quiet=True,
        **named,
        **more,
    )
    return result.folder


def train_in_ranks(case: Case, place: Path, run_id: str, first: Path | None, *more: str) -> Path:
    """Trains a case by the command line in two processes. Returns its folder."""
    file = place / f"{run_id}.yaml"
    tree = config(case, place, first)
    tree["env_settings"] = {"env_options": options(case)}
    file.write_text(yaml.safe_dump(tree))
    named = ["--initialize-from", first.name] if case["init"] == "initialize_from" and first is not None else []
    command = [sys.executable, "-m", "palaestra", "learn", str(file), "--env=python:pair_world:make", "--num-areas=4"]
    command += ["--processes=2", f"--run-id={run_id}", f"--results-dir={place}", "--seed=5", *named, *more]
    if case["copies"] > 1:
        command.append(f"--num-envs={case['copies']}")
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    paths = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=place, env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return place / run_id


def check_counters(folder: Path, case: Case) -> None:
    """What a checkpoint counts in several places agrees."""
    saved = state(folder)
    run = saved["run"]
    names = {"Main", *(["Late"] if case["late"] else [])}
    assert {name for name in saved if name != "run"} == names
    for name in names:
        assert run["collector"]["behaviors"][name]["decisions"] >= STEPS
        assert saved[name]["next_summary"] > STEPS
        if case["self_play"]:
            assert run["parts"]["self_play"]["behaviors"][name]["schedule"]["saves"] > 0
    if case["curriculum"] == "require_reset":
        assert run["parts"]["lessons"]["curricula"]["lessons"]["width"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_features_go_together(case, tmp_path, monkeypatch):
    print(title(case))
    monkeypatch.chdir(tmp_path)
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    first = None
    if case["init"]:
        plain = {**case, "init": "", "keep_best": "", "stop_when": False, "threaded": False, "copies": 1}
        alone = {**plain, "ranks": 1, "curriculum": "", "self_play": False, "late": case["late"]}
        first = train(alone, tmp_path, "first", None)
    if case["ranks"] > 1:
        folder = train_in_ranks(case, tmp_path, "run", first)
    else:
        folder = train(case, tmp_path, "run", first)
    check_counters(folder, case)
    if case["interrupted"]:
        check_interruption(case, tmp_path, first, folder)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= children


def check_interruption(case: Case, place: Path, first: Path | None, whole: Path) -> None:
    """A run that is stopped and resumed ends as one that was not, digit for digit, where its world can be saved."""
    if case["ranks"] > 1:
        half = ("--set", f"default_settings.max_steps={STEPS // 2}")
        train_in_ranks(case, place, "halves", first, *half)
        folder = train_in_ranks(case, place, "halves", None, "--resume")
        check_counters(folder, case)
        return

    def stop(summary: Summary) -> bool:
        return summary.step >= STEPS // 2

    train(case, place, "halves", first, callbacks=[stop])
    folder = train(case, place, "halves", first, resume=True)
    check_counters(folder, case)
    if case["copies"] == 1 and not case["late"]:
        found = differences(state(whole), state(folder))
        if case["threaded"] and case["keep_best"] == "evaluated":  # a session's end measures its last update at once
            found = [one for one in found if not one.startswith(".run.parts.keep_best.Main.step")]
        assert found == []
