"""Studies whose trainings run in this process, in a second or two."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from small_runs import settings

from palaestra.runtime.tune.study import StudyFolder, TuneStudy, quiet_optuna
from palaestra.runtime.tune.study_plan import StudyPlan, make_plan
from palaestra.runtime.tune.trial_process import Outcome, TrialTask, train_trial

RATE = "behaviors.*.hyperparameters.learning_rate"
ENV = {"env_settings": {"env_path": "CartPole", "num_areas": 8}, "torch_settings": {"device": "cpu"}}


class Finished:
    """A training that has ended."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def ended(self) -> Outcome:
        return self.outcome

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Here:
    """Trains in this process, and remembers which tasks it was given."""

    def __init__(self, *outcomes: Outcome) -> None:
        """`outcomes`: those of the first tasks, which are not trained then."""
        self.tasks: list[TrialTask] = []
        self._outcomes = list(outcomes)

    def __call__(self, task: TrialTask) -> Finished:
        self.tasks.append(task)
        if self._outcomes:
            return Finished(self._outcomes.pop(0))
        outcome = train_trial(task)
        outcome.write(Path(task.outcome))
        return Finished(outcome)


def plan(max_steps: int = 400, block: Mapping[str, Any] | None = None, **search: Any) -> StudyPlan:
    """The plan of a small study."""
    space = {RATE: {"log": [1e-5, 1e-2]}}
    tree = {
        **settings("CartPole", max_steps),
        "trackers": ["jsonl"],
        "search": {"space": space, "episodes": 5, **search},
    }
    return make_plan({**tree, **(block or {})}, ENV)


@contextmanager
def opened(results: Path, of: StudyPlan, name: str = "study") -> Iterator[TuneStudy]:
    """A study that is begun, or gone on with."""
    folder = StudyFolder(results, name)
    with quiet_optuna() as optuna:
        if not folder.exists:
            folder.begin(of, force=False)
        study = TuneStudy(folder, of, optuna)
        try:
            yield study
        finally:
            study.close()
