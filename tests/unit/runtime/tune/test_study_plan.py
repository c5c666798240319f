from typing import Any

import pytest
import yaml
from small_runs import settings

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load
from palaestra.runtime.tune.study_plan import code_of, differences, make_plan

RATE, GAMMA = "behaviors.*.hyperparameters.learning_rate", "behaviors.*.reward_signals.extrinsic.gamma"
SPACE = {RATE: {"log": [1e-5, 1e-2]}, GAMMA: {"uniform": [0.8, 0.999]}}


def tree(behavior: str = "CartPole", space: dict[str, Any] | None = None, **search: Any) -> dict[str, Any]:
    return {**settings(behavior), "search": {"space": SPACE if space is None else space, **search}}


def test_the_settings_of_a_trial_are_those_of_the_file_with_its_values():
    plan = make_plan(tree(), {"env_settings": {"env_path": "CartPole"}}, ["behaviors.CartPole.time_horizon=32"])
    text = plan.text_of({RATE: 1e-3, GAMMA: 0.9}, "why\nand how")
    assert text.startswith("# why\n# and how\n")
    found = yaml.safe_load(text)
    assert found["env_settings"] == {"env_path": "CartPole"}
    assert "search" not in found
    block = load(found).settings.behaviors["CartPole"]
    assert (block.hyperparameters.learning_rate, block.reward_signals["extrinsic"].gamma, block.time_horizon) == (
        1e-3,
        0.9,
        32,
    )  # type: ignore[union-attr]


def test_the_files_own_values_come_first_also_those_outside_the_ranges():
    assert make_plan(tree(), {}).start == {RATE: 3e-4, GAMMA: 0.99}
    assert make_plan(tree(start_values=False), {}).start is None
    outside = make_plan(tree(space={RATE: {"log": [1e-3, 1e-2]}}), {})
    assert outside.start == {RATE: 3e-4}
    assert outside.notes == make_plan(tree(), {}).notes
    share, bins = "behaviors.*.self_play.exploiter.share", "behaviors.*.hyperparameters.critic_bins"
    space = {share: {"uniform": [0.1, 0.4]}, bins: {"choice": [None, 11]}}
    blocks = settings("Duel", trainer_type="sac", self_play={"exploiter": {}})["behaviors"]
    blocks["Alone"] = settings("Alone", trainer_type="sac")["behaviors"]["Alone"]
    for some, start in ((["Duel"], {share: 0.25}), (["Alone"], {}), (["Duel", "Alone"], {})):
        tree_of_some = {"behaviors": {name: blocks[name] for name in some}, "search": {"space": space}}
        assert make_plan(tree_of_some, {}).start == start | {bins: None}


def test_the_run_whose_replay_is_prior_data_is_named_by_its_folder_since_trials_lie_in_another(tmp_path):
    (tmp_path / "earlier").mkdir()
    for run, found in (("earlier", str(tmp_path / "earlier")), ("results/other", "results/other")):
        prior = {"hyperparameters": {"prior_data": {"run": run}}, "trainer_type": "sac"}
        plan = make_plan(
            {**settings("CartPole", **prior), "search": {"space": {RATE: SPACE[RATE]}}},
            {"checkpoint_settings": {"results_dir": str(tmp_path)}},
        )
        block = plan.tree_of({RATE: 1e-3})["behaviors"]["CartPole"]
        assert block["hyperparameters"] == {"prior_data": {"run": found}, "learning_rate": 1e-3}


def test_models_of_runs_are_named_by_their_folders_too(tmp_path):
    (tmp_path / "earlier").mkdir()
    play = {"opponents": ["prioritized", "model:earlier@best", "model:other", "random"]}
    cloned = {"hyperparameters": {"teacher": "model:earlier"}, "trainer_type": "bc"}
    blocks = settings("Duel", self_play=play)["behaviors"] | settings("Basic", **cloned)["behaviors"]
    search = {"space": {"behaviors.Basic.hyperparameters.teacher": {"choice": ["model:earlier", "heuristic"]}}}
    place = {"checkpoint_settings": {"results_dir": str(tmp_path)}}
    plan = make_plan({"behaviors": blocks, "search": search}, place)
    duel, basic = plan.tree["behaviors"].values()
    folder = f"model:{tmp_path / 'earlier'}"
    assert duel["self_play"]["opponents"] == ["prioritized", f"{folder}@best", "model:other", "random"]
    assert basic["hyperparameters"]["teacher"] == folder
    assert plan.dimensions[0].values == (folder, "heuristic")
    mirror = tmp_path / "mirror.yaml"
    mirror.write_text("observations: {a: same}\n")
    plan = make_plan({**settings("Duel", mirror=mirror), "search": {"space": {RATE: SPACE[RATE]}}}, {})
    assert plan.tree["behaviors"]["Duel"]["mirror"] == str(mirror)  # as the study's file has it


@pytest.mark.parametrize("alone", [True, False])
def test_a_range_of_a_behaviors_key_is_that_of_every_behavior(tmp_path, alone):
    ranges = {"hyperparameters.learning_rate": SPACE[RATE], "behaviors.CartPole.time_horizon": {"choice": [32, 64]}}
    block = tmp_path / "ranges.yaml"
    block.write_text(yaml.safe_dump({"search": {"space": ranges}}))
    plan = make_plan(tree(), {}, block=block) if alone else make_plan(tree(space=ranges), {})
    assert {each.path for each in plan.dimensions} == {RATE, "behaviors.CartPole.time_horizon"}
    assert plan.start == {RATE: 3e-4, "behaviors.CartPole.time_horizon": 64}
    with pytest.raises(ConfigError, match=r"search\.space: gives a setting twice"):
        make_plan(tree(space={**ranges, **SPACE}), {})


def test_ranges_in_a_file_of_their_own_replace_those_of_the_file(tmp_path):
    (tmp_path / "ranges.yaml").write_text("space:\n  behaviors.*.max_steps: {integer: [200, 400]}\n")
    plan = make_plan(tree(trials=9), {"search": {"jobs": 2}}, block=tmp_path / "ranges.yaml")
    assert [each.path for each in plan.dimensions] == ["behaviors.*.max_steps"]
    assert (plan.search.total, plan.search.jobs) == (30, 2)


@pytest.mark.parametrize(
    ("path", "values", "message"),
    [
        ("behaviors.*.hyperparameters.learning_rat", {"log": [1e-5, 1e-2]}, "did you mean 'learning_rate'"),
        ("behaviors.Cart.max_steps", {"integer": [1, 2]}, "no behavior is named 'Cart'"),
        ("behaviors.*.hyperparameters.lambd", {"uniform": [0.9, 1.5]}, "with the value 1.5"),
        ("behaviors.*.trainer_type", {"choice": ["ppo", "pppo"]}, "no trainer is named 'pppo'"),
    ],
)
def test_a_range_that_no_trial_could_use_is_refused_with_its_line(tmp_path, path, values, message):
    file = tmp_path / "game.yaml"
    file.write_text(yaml.safe_dump({**settings("CartPole"), "search": {"space": {path: values}}}, sort_keys=False))
    with pytest.raises(ConfigError) as error:
        make_plan(file, {})
    assert message in str(error.value)
    assert str(error.value).startswith(f"{file}:")


def test_a_study_is_read_back_from_what_it_has_written():
    plan = make_plan(tree(bar=90, trials=7, method="random"), {"env_settings": {"env_path": "CartPole"}})
    again = make_plan(yaml.safe_load(yaml.safe_dump(plan.as_tree())), {})
    assert differences(plan, again) == []
    assert (again.search, again.tree) == (plan.search, plan.tree)


def test_what_differs_between_two_plans_is_named_but_for_how_much_is_done_at_once():
    before = make_plan(tree(), {})
    narrow = {RATE: {"log": [1e-4, 1e-2]}}
    now = make_plan(tree(trials=99, jobs=3, space=narrow), {}, ["behaviors.CartPole.max_steps=7"])
    changed = ["behaviors.CartPole.max_steps", f"search.space.{RATE}.log", f"search.space.{GAMMA}.uniform"]
    assert differences(before, now) == changed


def test_the_processes_of_a_search_for_the_bar_end_there():
    plan = make_plan(tree(bar=90, episodes=20), {})
    sets = plan.sets(plan.settings)
    stop = load(plan.tree_of({}), sets=sets).settings.behaviors["CartPole"].stop_when
    assert (stop.at_least, stop.episodes) == (90, 20)
    both = make_plan(tree(bar=90, objectives=["reward", "decisions"]), {})
    assert both.sets(plan.settings) == ["torch_settings.threads=1"]


def test_metrics_are_written_whatever_trackers_the_file_has():
    plan = make_plan({**tree(), "trackers": ["console"]}, {})
    assert "jsonl" in load(plan.tree_of({}), sets=plan.sets(plan.settings)).settings.trackers


def test_a_place_of_a_run_is_left_out_and_an_origin_refused():
    place = {"checkpoint_settings": {"run_id": "x", "force": True}}
    assert "checkpoint_settings" not in make_plan({**tree(), **place}, {}).tree
    with pytest.raises(ConfigError, match="init_path"):
        make_plan({**tree(), "checkpoint_settings": {"initialize_from": "x"}}, {})


def test_a_trial_trains_in_one_process():
    with pytest.raises(ConfigError, match="in one process"):
        make_plan({**tree(), "torch_settings": {"processes": 2}}, {})


def test_a_behavior_that_is_not_there_cannot_be_compared_by():
    with pytest.raises(ConfigError, match="no behavior is named 'Other'"):
        make_plan(tree(behavior="Other") | settings("CartPole"), {"search": {"behavior": "Other"}})


def test_code_that_a_choice_names_is_found():
    space = {"behaviors.*.trainer_type": {"choice": ["ppo", "my_trainer:Mine"]}}
    plan = make_plan(tree(space=space), {}, own_code=False)
    assert [value for _, value in code_of(plan)] == ["my_trainer:Mine"]
