"""The form of settings: its rows, what a change does to the YAML, and what a page may start."""

from pathlib import Path

import pytest

from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.settings import load
from palaestra.runtime.storage.trust import sign
from palaestra.web.starting.first_settings import changed, free_name, must_be_allowed, settings_for, settings_of_run
from palaestra.web.starting.new_run_page import plain, whole
from palaestra.web.starting.setting_rows import UNSET, put, rows_of, value_at
from palaestra.web.starting.started_runs import _processes, start_run, starting


def test_every_row_of_a_shipped_file_has_a_kind_a_default_and_a_sentence():
    tree = settings_for("3DBall")
    rows = {row.name: row for row in rows_of(tree, "3DBall")}
    assert rows["hyperparameters.learning_rate"].kind == "number"
    assert {"linear", "constant"} <= set(rows["hyperparameters.learning_rate_schedule"].choices)
    assert rows["threaded"].kind == "switch"
    assert rows["self_play"].kind == "section"
    assert "self_play.window" not in rows
    assert rows["trainer_type"].choices[0] == "ppo"
    assert rows["env_settings.num_areas"].default is None
    assert all(row.sentence for row in rows.values())
    put(tree, ("behaviors", "3DBall", "self_play"), {})
    assert "self_play.window" in {row.name for row in rows_of(tree, "3DBall")}
    put(tree, ("behaviors", "3DBall", "trainer_type"), "sac")
    assert "hyperparameters.critic_bins" in {row.name for row in rows_of(tree, "3DBall")}


def test_a_value_is_put_and_taken_away_with_the_section_that_it_leaves_empty():
    tree = {"behaviors": {"A": {"max_steps": 5}}}
    path = ("behaviors", "A", "network_settings", "hidden_units")
    put(tree, path, 32)
    assert tree["behaviors"]["A"]["network_settings"] == {"hidden_units": 32}
    assert value_at(tree, path) == 32
    put(tree, path, UNSET)
    assert tree == {"behaviors": {"A": {"max_steps": 5}}}
    put(tree, ("behaviors", "B", "max_steps"), UNSET)
    assert value_at(tree, ("behaviors", "B")) is UNSET


def test_a_copy_has_what_differs_from_the_defaults_and_loads_as_the_same(tmp_path: Path):
    tree = {
        "behaviors": {"A": {"trainer_type": "ppo", "hyperparameters": {"batch_size": 7}, "max_steps": 500_000}},
        "env_settings": {"env_path": "Basic"},
        "checkpoint_settings": {"run_id": "first"},
    }
    settings = load(tree).settings
    assert changed(settings)["behaviors"]["A"] == {"trainer_type": "ppo", "hyperparameters": {"batch_size": 7}}
    (tmp_path / "first").mkdir()
    import yaml

    (tmp_path / "first" / "configuration.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json")))
    copy = settings_of_run(tmp_path / "first")
    assert "checkpoint_settings" not in copy
    assert load(copy).settings.behaviors == settings.behaviors
    with pytest.raises(RunError, match=r"has no configuration\.yaml to copy"):
        settings_of_run(tmp_path / "none")


def test_names_are_free_and_only_built_in_environments_have_settings(tmp_path: Path):
    (tmp_path / "3DBall").mkdir()
    assert free_name(tmp_path, "3DBall") == "3DBall-2"
    with pytest.raises(ConfigError, match="is no built-in environment"):
        settings_for("python:os:system")


CODE = {
    "env": {"env_settings": {"env_path": "python:mine:make"}},
    "game": {"env_settings": {"env_path": "./Game.x86_64"}},
    "trainer": {"behaviors": {"A": {"trainer_type": "mine:Own", "hyperparameters": {}}}},
    "tracker": {"trackers": {"mine:Own": {}}},
}


@pytest.mark.parametrize("what", CODE)
def test_a_page_starts_no_code_but_that_of_an_own_run_which_it_copies(tmp_path: Path, what: str):
    plain = {"behaviors": {"A": {"trainer_type": "ppo"}}, "env_settings": {"env_path": "Basic"}}
    tree = {**plain, **CODE[what]}
    must_be_allowed(plain, None, False)
    with pytest.raises(ConfigError, match="use palaestra learn in a terminal"):
        must_be_allowed(tree, None, True)
    run = tmp_path / "run"
    (run / "run_logs").mkdir(parents=True)
    import yaml

    (run / "configuration.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(ConfigError, match="use palaestra learn in a terminal"):
        must_be_allowed(tree, run, False)  # someone else's
    must_be_allowed(tree, run, True)
    sign(run, load(run / "configuration.yaml", own_code=False).settings)
    must_be_allowed(tree, run, False)
    other = {**tree, "env_settings": {"env_path": "python:os:system"}}
    with pytest.raises(ConfigError, match="os:system"):
        must_be_allowed(other, run, True)


def test_settings_are_searched_by_words_and_numbers_of_a_browser_are_whole():
    assert plain("Learning rate") in plain("hyperparameters.learning_rate")
    assert [whole(sent) for sent in (3, 2.0, 1.5, None, "abc", float("nan"), float("inf"))] == [3, 2, *[None] * 5]


def test_runs_that_are_to_begin_are_named_until_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palaestra.web.starting.started_runs.own_python", lambda *_: ["sleep", "30"])
    start_run(tmp_path, "one", {"default_settings": {}})
    start_run(tmp_path, "three", {"default_settings": {}}, seeds=3)
    assert starting(tmp_path) == [("one", "it is starting"), ("three", "it is starting")]
    for name in ("one", "three-seed-1"):
        (tmp_path / name / "run_logs").mkdir(parents=True)
    assert starting(tmp_path) == [("three", "1 of 3 seeds have begun")]
    assert starting(tmp_path / "other") == []
    with pytest.raises(ConfigError, match="started already"):
        start_run(tmp_path, "one", {"behaviors": {}})
    assert (tmp_path / ".started" / "one.yaml").read_text() == "default_settings: {}\n"
    for name in ("three-seed-2", "three-seed-3"):
        (tmp_path / name / "run_logs").mkdir(parents=True)
    monkeypatch.setattr("palaestra.web.starting.started_runs.own_python", lambda *_: ["false"])
    start_run(tmp_path, "bad", {"default_settings": {}})
    _processes[tmp_path / ".started" / "bad.log"].wait(10)
    assert starting(tmp_path) == [("bad", "it ended before it began")]
    for process in _processes.values():
        process.kill()
        process.wait(10)
