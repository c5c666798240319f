"""Trackers by name, by `module:Class`, and those of plug-ins that were written for ML-Agents."""

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from installed_plugins import forget_plugins
from small_runs import settings, tracked_run

import palaestra
from palaestra.core.errors import PluginError
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.logging.stats_writers import find_stats_writers
from palaestra.runtime.logging.tracker_plugins import find_trackers, make_trackers
from palaestra.runtime.settings import load, to_yaml

WRITER = """
    from mlagents.trainers.settings import RunOptions
    from mlagents.trainers.stats import StatsPropertyType, StatsSummary, StatsWriter
    from mlagents_envs.side_channel.stats_side_channel import StatsAggregationMethod

    CALLS = []

    class Noted(StatsWriter):
        def write_stats(self, category, values, step):
            assert all(isinstance(value, StatsSummary) for value in values.values())
            CALLS.append(("write", category, values, step))

        def on_add_stat(self, category, key, value, aggregation=StatsAggregationMethod.AVERAGE):
            CALLS.append(("add", category, key, value, aggregation))

        def add_property(self, category, property_type, value):
            assert property_type is StatsPropertyType.HYPERPARAMETERS
            CALLS.append(("property", category, value))

    def writers(run_options: RunOptions):
        CALLS.append(("made", run_options.checkpoint_settings.write_path, list(run_options.behaviors)))
        return [Noted()]

    def broken(run_options):
        raise KeyError("no token")
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Installs a module with entry points of one group, for the length of a test."""
    site = tmp_path / "site"

    def install(module: str, code: str, group: str, **points: str) -> None:
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = [f"{name} = {module}:{attribute}" for name, attribute in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
        (site / f"{module}.py").write_text(textwrap.dedent(code))
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)
        forget_plugins()

    yield install
    forget_plugins()


def names_of(trackers: Any) -> list[str]:
    return [*load({**settings("Basic"), "trackers": trackers}).settings.trackers]


def test_the_default_is_the_console_tensorboard_and_jsonl():
    loaded = load(settings("Basic")).settings
    assert loaded.trackers == {"console": {}, "tensorboard": {}, "jsonl": {}}


def test_trackers_are_a_list_or_a_map_and_read_back_to_the_same(tmp_path):
    assert names_of(["wandb", "jsonl"]) == ["wandb", "jsonl"]
    tree = {**settings("Basic"), "trackers": {"jsonl": None, "my:Own": {"file": "x"}}}
    loaded = load(tree).settings
    assert loaded.trackers == {"jsonl": {}, "my:Own": {"file": "x"}}
    file = tmp_path / "again.yaml"
    file.write_text(to_yaml(loaded))
    assert load(file).settings == loaded


def test_an_unknown_tracker_is_refused_with_the_nearest():
    wanted = load({**settings("Basic"), "trackers": ["tensorbord"]}).settings
    with pytest.raises(PluginError, match=r"no tracker is named 'tensorbord'; did you mean 'tensorboard'\?"):
        find_trackers(wanted)


def test_a_service_without_a_tracker_is_refused_with_the_way_to_write_one():
    wanted = load({**settings("Basic"), "trackers": {"mlflow": {"tracking_uri": "http://host:5000"}}}).settings
    with pytest.raises(PluginError, match=r"'mlflow'.*module:Class \(the guide 'TensorBoard and"):
        find_trackers(wanted)


def test_an_option_that_a_tracker_does_not_take_is_refused():
    wanted = load({**settings("Basic"), "trackers": {"jsonl": {"sep": ";"}}}).settings
    with pytest.raises(PluginError, match=r"tracker 'jsonl' has no option 'sep' \(it has none\)"):
        find_trackers(wanted)


def test_a_run_with_the_examples_tracker_alone_writes_no_other_files(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[4])
    tree = {**settings("Basic"), "trackers": {"examples.own_tracker:BestReward": {"file": "record.json"}}}
    done = palaestra.train(tree, env="Basic", run_id="own", results_dir=str(tmp_path))
    assert json.loads((done.folder / "record.json").read_text())["Basic"]["step"] % 100 == 0
    assert not (done.folder / "metrics.jsonl").exists()
    assert not [*done.folder.glob("Basic/events*")]


def test_a_plug_in_is_found_by_its_entry_point(distribution):
    code = """
        class Kept:
            def __init__(self, run, project):
                self.run, self.project = run, project
            def write(self, summary): pass
            def text(self, behavior, tag, body): pass
            def close(self): pass
    """
    distribution("kept_tracker", code, "palaestra.trackers", kept="Kept")
    wanted = load({**settings("Basic"), "trackers": {"kept": {"project": "mine"}}}).settings
    run = tracked_run(Path("results"))
    run = type(run)(run.folder, wanted, {})
    made: Any = make_trackers(find_trackers(wanted), run, pytest.fail)["kept"]
    assert (made.project, made.run) == ("mine", run)


def test_a_tracker_that_lacks_a_method_is_refused(distribution):
    distribution(
        "bare_tracker",
        "class Bare:\n    def __init__(self, run): pass\n    def write(self, summary): pass",
        "palaestra.trackers",
        bare="Bare",
    )
    wanted = load({**settings("Basic"), "trackers": ["bare"]}).settings
    run = tracked_run(Path("results"))
    with pytest.raises(PluginError, match="tracker 'bare' lacks text, close"):
        make_trackers(find_trackers(wanted), type(run)(run.folder, wanted, {}), pytest.fail)


def test_a_stats_writer_of_ml_agents_is_called_with_its_arguments(distribution):
    distribution("their_writer", WRITER, "mlagents.stats_writer", theirs="writers")
    run = tracked_run(Path("results/ppo"))
    statistics = Statistics(find_stats_writers(run, pytest.fail), pytest.fail)
    import their_writer  # type: ignore[import-not-found]

    calls = their_writer.CALLS
    assert calls == [("made", str(Path("results/ppo")), [])]
    assert "mlagents" not in sys.modules
    statistics.trackers.text("Ball", "Hyperparameters", "as text")
    assert calls[-1][:2] == ("property", "Ball")
    assert calls[-1][2]["trainer_type"] == "ppo"
    statistics.add("Ball", "Losses/Policy Loss", 1.0)
    statistics.add("Ball", "Losses/Policy Loss", 3.0)
    statistics.spread("Ball", "Environment/Cumulative Reward", [2.0, 6.0])
    statistics.latest("Ball", "Elo", 1.0)
    statistics.latest("Ball", "Elo", 2.0)
    statistics.total("Ball", "Wins", 1.0)
    statistics.total("Ball", "Wins", 1.0)
    added = [(key, value, method.name) for _, _, key, value, method in (call for call in calls if call[0] == "add")]
    assert added[:3] == [
        ("Losses/Policy Loss", 1.0, "AVERAGE"),
        ("Losses/Policy Loss", 3.0, "AVERAGE"),
        ("Environment/Cumulative Reward", 2.0, "HISTOGRAM"),
    ]
    statistics.summarize("Ball", 500, elapsed=1.0, training=True)
    _, category, values, step = calls[-1]
    assert (category, step) == ("Ball", 500)
    assert {
        key: (stat.full_dist, stat.aggregation_method.name, stat.aggregated_value) for key, stat in values.items()
    } == {
        "Losses/Policy Loss": ([1.0, 3.0], "AVERAGE", 2.0),
        "Environment/Cumulative Reward": ([2.0, 6.0], "HISTOGRAM", 4.0),
        "Elo": ([2.0], "MOST_RECENT", 2.0),
        "Wins": ([1.0, 1.0], "SUM", 2.0),
        "Is Training": ([1.0], "AVERAGE", 1.0),
        "Step": ([500.0], "MOST_RECENT", 500.0),
    }
    statistics.summarize("Ball", 600, elapsed=1.0, training=False)
    assert calls[-1][2]["Is Training"].full_dist == [0.0]


def test_a_stats_writer_that_cannot_be_made_is_reported_and_left_out(distribution):
    distribution("broken_writer", WRITER, "mlagents.stats_writer", fails="broken", works="writers")
    message: list[str] = []
    assert [*find_stats_writers(tracked_run(Path("results")), message.append)] == ["works (mlagents.stats_writer)"]
    assert len(message) == 1
    assert message[0].startswith(
        "the plug-in 'fails' (broken_writer:broken) of mlagents.stats_writer is not used: KeyError: 'no token'"
    )


def test_a_run_calls_stats_writers_without_a_setting(distribution, tmp_path):
    distribution("called_writer", WRITER, "mlagents.stats_writer", called="writers")
    palaestra.train(settings("Basic"), env="Basic", run_id="called", results_dir=str(tmp_path))
    import called_writer  # type: ignore[import-not-found]

    kinds = [call[0] for call in called_writer.CALLS]
    assert kinds[:2] == ["made", "property"]
    assert kinds.count("write") == 3
