import os

import pytest
from tune_runs import RATE, opened, plan

from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.tune.study import StudyFolder


@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_two_holders_of_one_study_never_get_the_same_trial(tmp_path, storage):
    shared = plan(trials=4, storage=storage)
    with opened(tmp_path, shared) as first, opened(tmp_path, shared) as second:
        claimed = [study.claim() for study in (first, second, first, second, first, second)]
        assert [trial and trial.number for trial in claimed] == [0, 1, 2, 3, None, None]
        assert len({trial.params[RATE] for trial in claimed if trial}) == 4
        assert (first.others(), second.others()) == (2, 2)


def test_a_trial_whose_holder_is_gone_is_gone_on_with_under_its_number_and_values(tmp_path):
    with opened(tmp_path, plan(trials=3)) as first:
        before = first.claim()
        values = dict(before.params)
    with opened(tmp_path, plan(trials=3)) as second:
        again = second.claim()
        assert (again.number, again.params) == (before.number, values)
        assert (other := second.claim()) is not None
        assert other.number == 1


def test_a_trial_that_ended_is_never_run_again(tmp_path):
    with opened(tmp_path, plan(trials=2)) as study:
        for _ in range(2):
            trial = study.claim()
            assert trial is not None
            study.optuna.tell(trial, [1.0])
            study.release(trial.number)
        assert study.claim() is None
        assert study.finished()


def test_the_first_trial_has_the_files_own_values(tmp_path):
    with opened(tmp_path, plan()) as study:
        trial = study.claim()
        assert trial.params == {RATE: 3e-4}
    with opened(tmp_path / "outside", plan(space={RATE: {"log": [1e-3, 1e-2]}})) as study:
        trials = [study.claim() for _ in range(2)]
        assert trials[0].params == {RATE: 1e-3}  # Optuna knows no value outside
        assert study.values(trials[0]) == {RATE: 3e-4}
        assert study.values(trials[1]) == trials[1].params


def test_a_study_that_exists_is_not_begun_again_by_accident(tmp_path):
    folder = StudyFolder(tmp_path, "study")
    folder.begin(plan(), force=False)
    with pytest.raises(RunError, match=r"exists already.*--resume"):
        folder.begin(plan(), force=False)
    (folder.path / "trials").mkdir()
    folder.begin(plan(), force=True)
    assert not (folder.path / "trials").exists()


def test_a_study_in_use_is_not_removed(tmp_path):
    with opened(tmp_path, plan()) as study:
        assert study.claim() is not None
        with pytest.raises(RunError, match="is in use"):
            study.folder.begin(plan(), force=True)


def test_a_folder_that_is_no_study_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    with pytest.raises(RunError, match="is no study"):
        StudyFolder(tmp_path, "run").begin(plan(), force=True)
    assert os.listdir(tmp_path / "run") == ["notes.txt"]


def test_a_name_that_leads_out_of_the_results_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--study: '\.\./x'"):
        StudyFolder(tmp_path, "../x")


def test_a_damaged_store_is_told(tmp_path):
    with opened(tmp_path, plan()) as study:
        study.folder.path.joinpath("study.db").write_bytes(b"no database" * 99)
    with pytest.raises(RunError, match="cannot open the study"), opened(tmp_path, plan()):
        pass


def test_values_outside_the_ranges_are_not_taken_from_a_store(tmp_path):
    with opened(tmp_path, plan(start_values=False)) as study:
        study.optuna.enqueue_trial({RATE: 0.5}, user_attrs={})
        with pytest.warns(UserWarning, match="out of range"), pytest.raises(RunError, match="not in its range"):
            study.claim()
