import json
import re

import numpy as np
import pytest
from PIL import Image
from written_runs import written, written_seeds

import palaestra
from palaestra.cli.main import main
from palaestra.core.display import duration
from palaestra.core.errors import ConfigError, RunError
from palaestra.core.metrics import GROUP_REWARD
from palaestra.runtime.comparison.comparing import UNNAMED
from palaestra.runtime.comparison.comparison_picture import comparison_figure
from palaestra.runtime.comparison.comparison_report import as_json, table

GOOD = [[1, 8, 9], [2, 7, 10], [0, 9, 11], [1, 9, 8], [1, 8, 12]]
BAD = [[1, 2, 3], [2, 2, 4], [0, 1, 2], [1, 2, 9], [1, 2, 1]]


@pytest.fixture
def results(tmp_path):
    """Five seeds of two settings."""
    written_seeds(tmp_path, "good", GOOD, settings={"rate": 1})
    written_seeds(tmp_path, "bad", BAD, settings={"rate": 2})
    return tmp_path


def test_settings_are_compared_by_the_interquartile_means_of_their_seeds(results):
    found = palaestra.compare("*", results_dir=results)
    good = found.results["good", "A"]
    bad = found.results["bad", "A"]
    assert good.score.value == pytest.approx((9 + 10 + 11) / 3)
    assert bad.score.value == pytest.approx((2 + 3 + 4) / 3)
    assert good.score.low < 10 < good.score.high
    assert sorted(good.scores.tolist()) == [8, 9, 10, 11, 12]
    assert found.improvements["good", "bad"].value == pytest.approx(23.5 / 25)  # 8 loses to 9, and 9 ties with 9
    assert list(found.improvements) == [("good", "bad")]  # the better one first
    assert found.settings == {"behaviors.A.rate": [2, 1]}
    assert found.notes == ()


def test_lower_is_better_where_it_is_said(results):
    found = palaestra.compare("*", results_dir=results, lower=True)
    assert found.improvements["bad", "good"].value == pytest.approx(1 - 1.5 / 25)


def test_the_way_to_a_bar_is_never_where_too_many_seeds_do_not_reach_it(results):
    found = palaestra.compare("*", results_dir=results, bar=9)
    good = found.results["good", "A"]
    bad = found.results["bad", "A"]
    assert [run.bar_step for run in good.runs] == [30, 30, 20, 20, 30]
    assert good.to_bar.value == pytest.approx(80 / 3)
    assert good.seconds_to_bar.value == pytest.approx(8 / 3)
    assert (good.reached, bad.reached) == (5, 1)
    assert bad.to_bar.value == np.inf
    text = table(found)
    assert re.search(r"good +5 .* 27 .* 2\.7 s +5 of 5", text)
    assert re.search(r"bad +5 .* never +never +never +1 of 5", text)
    assert "never: a run that does not reach the bar counts as infinitely late" in text
    assert as_json(found)["tasks"]["A"]["groups"]["bad"]["to_bar"]["iqm"] is None


def test_several_tasks_are_taken_together_once_they_are_normalized(results):
    written_seeds(results, "good-b", [[0, 50], [0, 100]], task="B", settings={"rate": 1})
    written_seeds(results, "bad-b", [[0, 0], [0, 50]], task="B", settings={"rate": 2})
    groups = ["good=good-*", "bad=bad-*"]
    raw = palaestra.compare([], groups=[f"good={results}/good-*", f"bad={results}/bad-*"], last=0)
    assert raw.overall == {}
    assert any("normalize=" in note for note in raw.notes)
    found = palaestra.compare("*", groups=groups, results_dir=results, last=0, normalize=["A=0,10", "B=0,100"])
    scores = np.sort([0.9, 1.0, 1.1, 0.8, 1.2, 0.5, 1.0])
    assert found.overall["good"].value == pytest.approx(scores[1:-1].mean())
    assert any("good has more runs in some tasks" in note for note in found.notes)
    assert found.improvements["good", "bad"].value == pytest.approx((23.5 / 25 + (0.5 + 1 + 1 + 1) / 4) / 2)
    assert "over all tasks" in table(found)


def test_groups_that_lack_a_task_have_no_estimate_over_all(results):
    written_seeds(results, "good-b", [[0, 50], [0, 100]], task="B", settings={"rate": 1})
    found = palaestra.compare("*", groups=["good=good-*", "bad=bad-*"], results_dir=results, normalize="minmax")
    assert list(found.overall) == ["good"]
    assert "bad has no estimate over all tasks: it has runs of 1 of 2" in found.notes


def test_what_makes_figures_unsure_is_noted(results):
    written(results / "alone", [1, 2], settings={"rate": 3})
    found = palaestra.compare("*", results_dir=results)
    assert any("a single run has no interval" in note for note in found.notes)
    assert "runs end at different steps, 20 to 30: at=20 compares all at the same one" in found.notes
    at = palaestra.compare("*", results_dir=results, at=30)
    assert ("alone", "A") in at.results  # its next summary would have been at 30


def test_runs_that_end_before_the_step_are_left_out(results):
    written(results / "short", [1, 2], every=5, settings={"rate": 3})
    found = palaestra.compare("*", results_dir=results, at=30)
    assert "short is left out: its summaries cover steps 5 to 10" in found.notes
    with pytest.raises(RunError, match="no run reaches the step 900"):
        palaestra.compare("*", results_dir=results, at=900)


def test_groups_are_rewarded_as_groups_where_all_runs_say_so(tmp_path):
    written_seeds(tmp_path, "x", [[1, 2], [3, 4]], tag=GROUP_REWARD)
    found = palaestra.compare("x-*", results_dir=tmp_path, groups="names")
    assert found.metrics == {"A": GROUP_REWARD}


def test_runs_of_tensorboard_alone_are_one_task(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    for seed in (1, 2):
        with SummaryWriter(str(tmp_path / f"sb3-{seed}")) as writer:
            for step in range(1, 4):
                writer.add_scalar("rollout/ep_rew_mean", seed * step, step)
    found = palaestra.compare("sb3-*", results_dir=tmp_path, metric="ep_rew_mean", last=0)
    assert found.tasks == [UNNAMED]
    assert found.results["sb3", UNNAMED].scores.tolist() == [3, 6]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "rewrad"}, "no metric 'rewrad'"),
        ({"behavior": ["B"]}, "no run has a behavior 'B'"),
        ({"bars": 3}, "has no argument 'bars'; did you mean 'bar'"),
    ],
)
def test_what_no_run_has_is_an_error(results, wrong, message):
    with pytest.raises((ConfigError, RunError), match=message):
        palaestra.compare("*", results_dir=results, **wrong)
    with pytest.raises(ConfigError, match="name runs to compare"):
        palaestra.compare([])


def test_the_command_prints_a_table_and_writes_a_picture(results, tmp_path, capsys):
    out = tmp_path / "deep" / "x.png"
    assert main(["compare", "good-*", "bad-*", "--bar=9", f"--results-dir={results}", f"--out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "A: Environment/Cumulative Reward, mean of the last 10 % of each run" in printed
    assert re.search(r"good > bad +0\.94", printed)
    assert re.search(r"behaviors\.A\.rate +1 +2", printed)
    with Image.open(out) as image:
        colors = {color for _, color in image.convert("RGB").getcolors(2**24)}
    assert (0x2F, 0x6F, 0xD0) in colors
    assert (0xD1, 0x49, 0x5B) in colors


def test_the_command_prints_json_with_every_run(results, tmp_path, capsys):
    groups = [f"a={results}/good-*", f"b={results}/bad-*"]
    assert main(["compare", "--groups", *groups, "--json", f"--out={tmp_path}/x.svg"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["score"] for run in found["tasks"]["A"]["groups"]["a"]["runs"]] == [9, 10, 11, 8, 12]
    assert found["improvements"][0]["probability"] == pytest.approx(23.5 / 25)


@pytest.mark.parametrize("by_time", [False, True])
def test_all_panels_are_drawn(results, by_time):
    written_seeds(results, "good-b", [[0, 50], [0, 100]], task="B", settings={"rate": 1})
    found = palaestra.compare("*", groups="names", results_dir=results, normalize="minmax", bar=0.5)
    assert (
        len(comparison_figure(found, by_time=by_time).axes) == 4
    )  # two tasks, and the scores of each: no group has both
    found = palaestra.compare("*", groups=["good=good-*", "bad=bad-*"], results_dir=results, normalize="minmax")
    assert len(comparison_figure(found, by_time=by_time).axes) == 3


def test_times_have_the_unit_that_suits_them():
    assert [duration(seconds) for seconds in (3, 600, 36000, np.inf)] == ["3.0 s", "10.0 min", "10.0 h", "never"]


def test_more_behaviors_than_a_picture_shows_are_refused(tmp_path):
    (tmp_path / "many").mkdir()
    point = {"step": 1, "elapsed": 1, "Environment/Cumulative Reward": 2}
    lines = [json.dumps({**point, "behavior": f"b{i}"}) for i in range(65)]
    (tmp_path / "many" / "metrics.jsonl").write_text("\n".join(lines))
    with pytest.raises(RunError, match=r"65 behaviors; at most 64 .* behavior="):
        palaestra.compare("many", results_dir=tmp_path)
    assert palaestra.compare("many", results_dir=tmp_path, behavior="b3").tasks == ["b3"]
