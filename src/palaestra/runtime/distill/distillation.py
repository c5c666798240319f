"""Trains small networks that imitate the models of a run, and compares both: reward, time per decision, size."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.brains.base import Brain
from palaestra.brains.model import Policy, feeds_of, layout_of, load_policy, model_content
from palaestra.brains.session import Session
from palaestra.core.errors import ConfigError
from palaestra.runtime.distill.student_settings import StudentRequest, student_tree
from palaestra.runtime.play.evaluating import Contestant, PlayOptions, evaluate_all, opened, played
from palaestra.runtime.play.evaluation import SideEpisodes, model_brains, results
from palaestra.runtime.play.run_models import Models, check_trust, find_models
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown
from palaestra.runtime.run.learning import learn
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import TrainingRequest
from palaestra.runtime.storage.run_folder import RunFolder

CERTAIN = 1.96
"""Standard errors on each side of a mean for its 95 % interval."""
WARM, BLOCKS, CALLS = 50, 9, 200
"""Decisions before the time is measured; number of blocks, of which the fastest counts; decisions in a block."""
MEASURED = (
    "95 % intervals of the mean. Time: one row in onnxruntime on one thread, the fastest of "
    f"{BLOCKS} blocks of {CALLS} decisions."
)


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """One model: its file, its reward, and its time per decision."""

    name: str
    behavior: str
    file: Path
    played: SideEpisodes
    microseconds: float
    size: int
    """Bytes of the model file."""

    @property
    def interval(self) -> float:
        """Half the width of the 95 % interval of the mean reward."""
        return CERTAIN * self.played.error


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Distillation(Shown):
    """Small networks, compared with the models that they imitate."""

    result: Result
    """The students' run."""
    teachers: tuple[ModelCosts, ...]  # the models that were imitated
    students: tuple[ModelCosts, ...]
    """A row for each behavior that played, in the same order; empty if a signal has stopped the run."""
    matches: Mapping[str, tuple[int, int, int]]
    """If teams play against each other: matches that the student won, drew and lost against its teacher."""

    def _line(self) -> str:
        parts = [
            f"{after.behavior}: {before.played.mean:.3f} to {after.played.mean:.3f}"
            for before, after in zip(self.teachers, self.students, strict=True)
        ]
        return "; ".join(parts)

    def _tables(self) -> Sequence[ResultTable]:
        head = ["behavior", "model", "mean reward", "success", "µs a decision", "bytes"]
        rows: list[list[str]] = []
        notes = [MEASURED]
        for before, after in zip(self.teachers, self.students, strict=True):
            for one, name in ((before, f"{Path(before.name).name} (teacher)"), (after, after.name)):
                success = one.played.success_rate
                mean = f"{one.played.mean:.3f} ± {one.interval:.3f}" if len(one.played.rewards) else "-"
                rows.append(
                    [
                        one.behavior if one is before else "",
                        name,
                        mean,
                        "" if success is None else f"{success:.1%}",
                        f"{one.microseconds:.1f}",
                        f"{one.size:,}",
                    ]
                )
        if absent := self.result.models.keys() - {one.behavior for one in self.students}:
            notes.append(f"Not in these episodes, so not compared: {', '.join(sorted(absent))}.")
        for behavior, (won, drawn, lost) in self.matches.items():
            notes.append(f"{behavior}: the student against its teacher: {won} won, {drawn} drawn, {lost} lost.")
        return [ResultTable(head, rows, left=2, notes=notes)] if rows else []


def distill(wanted: StudentRequest) -> Distillation:
    """Trains the students, and compares them with their teachers unless a signal came. Raises PalaestraError."""
    models = find_models(wanted.run, wanted.results, wanted.trust)
    if wanted.env is None or isinstance(wanted.env, str):
        check_trust(models, wanted.env)
    name = wanted.name(models)
    its_place = models.folder is not None and (wanted.results / name).resolve() == models.folder.resolve()
    if its_place or name == models.run:  # in another folder too, since results go by the names
        raise ConfigError(f"'{name}' is the teacher's own run: choose another --run-id")
    there = "" if wanted.results == Path("results") else f" --results-dir={wanted.results}"
    RunFolder(wanted.results, name).must_be_free(wanted.force, f"`palaestra learn --run-id={name}{there} --resume`")
    policies = models.policies(wanted.seed or 0)
    overrides: dict[str, Any] = {section: dict(values) for section, values in wanted.flags.items()}
    numbers = {"num_areas": wanted.num_areas, "seed": wanted.seed}
    overrides["env_settings"] = overrides.get("env_settings", {}) | {k: v for k, v in numbers.items() if v is not None}
    folder = {"run_id": name, "results_dir": str(wanted.results), "force": wanted.force}
    overrides["checkpoint_settings"] = folder
    tree = student_tree(wanted, models, policies)
    env = None if isinstance(wanted.env, str) else wanted.env
    result = learn(TrainingRequest(tree, overrides, wanted.sets, env, quiet=wanted.quiet, trust=wanted.trust))
    return Distillation(result, (), (), {}) if result.signal else judged(wanted, models, policies, result)


def judged(wanted: StudentRequest, models: Models, teachers: Mapping[str, Policy], result: Result) -> Distillation:
    """Returns the comparison: plays teachers and students in the same environment, measures the time per decision."""
    students = {name: load_policy(file, seed=wanted.seed or 0) for name, file in result.models.items()}
    if models.settings is None and len(teachers) == 1:  # a file, which has taught all of them
        teachers = dict.fromkeys(students, next(iter(teachers.values())))
    options = PlayOptions(
        wanted.episodes,
        wanted.deterministic,
        wanted.num_areas,
        wanted.seed or 0,
        wanted.env,
        flags=wanted.flags,
        quiet=wanted.quiet,
    )
    pair = {models.run: teachers, result.run_id: students}
    found = evaluate_all([Contestant(name, models, of) for name, of in pair.items()], options)
    costs: dict[str, dict[str, ModelCosts]] = {name: {} for name in pair}
    for row in found.rows:
        behavior = row.behavior.partition("?team=")[0]
        if behavior not in costs[row.run]:  # its first team
            policy = pair[row.run][behavior]
            size = policy.path.stat().st_size
            costs[row.run][behavior] = ModelCosts(
                row.run, behavior, policy.path, row.played, microseconds(policy), size
            )
    before, after = costs.values()
    both = [name for name in before if name in after]  # one may have come late, as in Unity's games
    several = any("?team=" in row.behavior for row in found.rows)
    matches = _matches(models, teachers, students, options) if several else {}
    return Distillation(result, tuple(before[name] for name in both), tuple(after[name] for name in both), matches)


def _matches(
    models: Models, teachers: Mapping[str, Policy], students: Mapping[str, Policy], options: PlayOptions
) -> dict[str, tuple[int, int, int]]:
    """Plays students, as team 0, against their teachers."""
    with opened(models, options.env, options) as env:
        sides = [model_brains(env, of, deterministic=options.deterministic) for of in (students, teachers)]

        def brain_of(behavior: str, team: int) -> Brain:
            return sides[min(team, 1)](behavior, team)

        found = results(played(env, brain_of, options, "student against teacher"))
    return {name.partition("?")[0]: one.outcomes for name, one in found.items() if name.endswith("?team=0")}


def microseconds(policy: Policy) -> float:
    """Returns the time of one decision of one agent, without the time of Python code around the model."""
    layout = layout_of(policy)
    session = Session(model_content(policy.path), str(policy.path), 0)
    feeds = feeds_of(policy, [np.zeros((1, *shape), np.float32) for shape in policy.obs_shapes], None, None)
    names = [name for name in (layout.continuous, layout.discrete) if name]
    times: list[float] = []
    for _ in range(WARM):
        session.run(names, feeds)
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(CALLS):
            session.run(names, feeds)
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return min(times)


def as_numbers(found: Distillation) -> dict[str, Any]:
    """Returns a distillation as plain values."""
    return {
        "run_id": found.result.run_id,
        "behaviors": {
            after.behavior: {"teacher": _numbers(before), "student": _numbers(after)}
            for before, after in zip(found.teachers, found.students, strict=True)
        },
        "matches": {name: dict(zip(("won", "drawn", "lost"), of, strict=True)) for name, of in found.matches.items()},
    }


def _numbers(one: ModelCosts) -> dict[str, Any]:
    mean = one.played.mean if len(one.played.rewards) else None
    return {
        "model": str(one.file),
        "mean": mean,
        "interval": one.interval,
        "episodes": len(one.played.returns),
        "microseconds": one.microseconds,
        "bytes": one.size,
    }
