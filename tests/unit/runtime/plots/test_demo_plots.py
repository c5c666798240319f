from pathlib import Path

import demo_files
import numpy as np
import pytest
from matplotlib.figure import Figure

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import read_demo
from palaestra.demos.summary import summarize
from palaestra.runtime.plots.chart_style import save
from palaestra.runtime.plots.demo_plots import demo_figure, whole_ticks


def drawn(path: Path, *records: object, **more: object) -> Figure:
    figure = demo_figure([summarize(read_demo(demo_files.write(path / "x.demo", *records, **more)))])
    save(figure, path / "x.png")
    return figure


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


@pytest.mark.parametrize(
    ("first", "last", "ticks"),
    [
        (1, 1, [1]),
        (1, 2, [1, 2]),
        (1, 6, [1, 2, 3, 4, 5, 6]),
        (1, 24, [1, 5, 10, 15, 20, 24]),
        (0, 7, [0, 1, 2, 3, 4, 5, 6, 7]),
        (0, 104, [0, 20, 40, 60, 80, 104]),
    ],
)
def test_an_axis_that_counts_has_whole_numbers_and_its_last_one(first, last, ticks):
    assert whole_ticks(first, last) == ticks


def test_a_file_shows_rewards_of_agents_and_groups_both_kinds_of_actions_and_observations(tmp_path):
    figure = drawn(tmp_path, demo_files.episodes(3, 5, 4))
    rewards, continuous, discrete, obs = figure.axes
    assert titles(figure) == ["Reward of each episode", "Continuous actions", "Discrete actions", "Observations"]
    assert [text.get_text() for text in rewards.texts] == ["x.demo", "Thing  ·  12 decisions  ·  3 episodes"]
    assert {line.get_label(): list(line.get_ydata()) for line in rewards.lines} == {
        "own": [1.5, 2.5, 2.0],
        "group": [0.75, 1.25, 1.0],
    }
    assert list(rewards.get_xticks()) == [1, 2, 3]
    assert [label.get_text() for label in discrete.get_xticklabels()] == ["0", "1", "2", "0", "1"]
    assert [text.get_text() for text in discrete.texts] == ["branch 0", "branch 1"]
    assert sum(bar.get_height() for bar in discrete.patches) == pytest.approx(2)  # two branches, all of each
    assert len(continuous.patches) == 2
    assert [text.get_text() for text in obs.texts] == ["view", "things", "goal"]


def test_a_file_without_episodes_has_sentences_in_place_of_axes(tmp_path):
    spec = BehaviorSpec((ObsSpec("v", (3,)),), ActionSpec(0, (2,)))
    first = next(iter(demo_files.episodes(3, spec=spec)))
    figure = drawn(tmp_path, [first], spec)
    rewards, discrete, obs = figure.axes
    assert [axes.axison for axes in figure.axes] == [False, False, True]
    assert rewards.texts[0].get_text() == "no episode"
    assert discrete.texts[0].get_text() == "no decisions"
    np.testing.assert_equal(obs.get_xticks(), [0, 1, 2])
