"""The saved state from which a run continues; each behavior gets its part when it appears."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import yaml

from palaestra.core.errors import CheckpointError, ConfigError, PalaestraError
from palaestra.core.specs import BehaviorSpec
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.collector import BehaviorCollector
from palaestra.runtime.collect.collector_state import restore_brains
from palaestra.runtime.collect.initialization import could_start
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.settings.tree import changes
from palaestra.runtime.storage.checkpoints import Checkpoint
from palaestra.runtime.storage.rank_states import number_of_ranks, state_of_rank
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder

MOST_CHANGES = 4
"""Number of changed settings that one message names."""
MISMATCH = re.compile(r"size mismatch for (\S+): .*?torch\.Size\(\[(.*?)\]\).*?torch\.Size\(\[(.*?)\]\)")
"""PyTorch's sentence about weights of two shapes."""


class SavedRun:
    """The state from which a run continues. The next checkpoint keeps the state of behaviors that do not appear."""

    def __init__(self, checkpoint: Checkpoint | None, group: RankGroup) -> None:
        """`checkpoint`: None for a new run. Raises CheckpointError for a state that no run has written."""
        self.run: Mapping[str, Any] = {}
        """The saved state except the learners' states."""
        self.parts: Mapping[str, Any] = {}
        """Saved state of each part of the run, by the part's name."""
        self.learned: dict[str, Any] = {}
        """Saved states of the learners of behaviors that have not appeared yet."""
        self.collectors: dict[str, Any] = {}
        """Saved states of the collectors of behaviors that have not appeared yet."""
        self.specs: dict[str, Any] = {}
        """Saved spec of each behavior, kept after the behavior has appeared."""
        self.same_ranks = True
        """Whether the run was saved by the same number of ranks."""
        self.threads: int | None = None
        """Number of threads that the saved session computed with."""
        self._configuration: str | None = None
        """The settings file that the saved session wrote, before this session writes its own."""
        self._group = group
        self._ranks = 1
        self.checkpoint = checkpoint
        if checkpoint is None:
            return
        try:
            self._take(checkpoint)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"{checkpoint.path} does not have the form of a run's checkpoint: {error!r}"
            ) from error

    def _take(self, checkpoint: Checkpoint) -> None:
        group = self._group
        self._ranks = number_of_ranks(checkpoint.state)
        self.same_ranks = self._ranks == group.size
        if self.same_ranks:
            self.checkpoint = checkpoint = replace(checkpoint, state=state_of_rank(checkpoint.state, group))
        self.run = checkpoint.state["run"]
        self.parts = self.run["parts"]
        self.threads = self.run["threads"]
        self.learned = {name: part for name, part in checkpoint.state.items() if name != "run"}
        self.collectors = {name: dict(one) for name, one in self.run["collector"]["behaviors"].items()}
        self.specs = dict(self.run["specs"])
        for name, one in self.collectors.items():
            met = self.run["meetings"]["met"].get(name) if self.same_ranks and "meetings" in self.run else None
            if met is not None:
                one |= {"agreed": met[0], "met": met[1]}
                continue
            own = one["decisions"] if self.same_ranks or group.leads else 0
            one |= {"agreed": one["decisions"], "met": own, "decisions": own}

    def restore(self, learner: Learner, seed: int) -> bool:
        """Restores a new behavior's learner, once. Returns whether there was a saved state for it.

        `seed`: the behavior's, for new random streams if the run was saved with another number of ranks.
        """
        name = learner.name
        counted = self.collectors.pop(name, None)
        if name not in self.learned:
            return False
        assert counted is not None
        learner.collector.decisions = counted["decisions"]
        learner.agreed = counted["agreed"]
        learner.met = counted["met"]
        learner.load_state_dict(self.learned.pop(name))
        if not self.same_ranks:
            assert self.checkpoint is not None
            learner.process.reseed(self._group.own_seed(seed + self.checkpoint.step))
        return True

    def restore_teacher(self, collector: BehaviorCollector) -> None:
        """Restores the collector of a behavior that a teacher plays, when the behavior appears."""
        counted = self.collectors.pop(collector.name, None)
        if counted is not None:
            collector.decisions = counted["decisions"]
        self.restore_brains(collector)

    def restore_brains(self, collector: BehaviorCollector) -> None:
        """Restores the random streams of the teachers and fixed opponents of a behavior that has appeared."""
        saved = self.run["collector"]["behaviors"] if self.checkpoint is not None else {}
        if collector.name in saved:
            restore_brains(collector, saved[collector.name])

    def must_share_behaviors(self, learners: Mapping[str, Learner], warn: Callable[[str], object]) -> None:
        """Raises CheckpointError if run and checkpoint share no behavior; some may still appear later."""
        assert self.checkpoint is not None
        saved = [name for name in self.checkpoint.state if name != "run"]
        new = [name for name in learners if name not in saved]
        if saved and new and len(new) == len(learners):
            raise CheckpointError(
                f"{self.checkpoint.path} is of a run with other behaviors: it has {', '.join(saved)}, this environment "
                f"has {', '.join(new)}; resume in the environment it was trained in, or choose another --run-id"
            )
        for name in new:
            warn(f"the behavior '{name}' is not in {self.checkpoint.path}: it starts from step 0")

    def tell_of_new_episodes(self, areas: int, info: Callable[[str], object], warn: Callable[[str], object]) -> None:
        """Prints why episodes do not continue; a warning, unless the environment can never continue episodes.
        `areas`: there are now."""
        before = self.run["collector"]["areas"]
        if not self.same_ranks:
            processes = "processes" if self._ranks > 1 else "process"
            why = f"this run was trained in {self._ranks} {processes} and continues in {self._group.size}"
        elif not self.run["collector"]["env"]:
            info(
                "Episodes start again, because this environment cannot be saved; weights, optimizer and steps continue"
            )
            return
        elif before != areas:
            why = f"this run was trained in {before} {'area' if before == 1 else 'areas'} and continues in {areas}"
        else:
            why = "this environment has other behaviors or agents, version or device than when it was saved"
        warn(f"{why}: episodes start again; everything else continues")

    def warn_of_scales(
        self, learners: Mapping[str, Learner], specs: Mapping[str, BehaviorSpec], warn: Callable[[str], object]
    ) -> None:
        """Warns about observations whose size has changed."""
        for name in (name for name in self.specs if name in learners):
            for was, obs in zip(self.specs[name]["obs"], specs[name].obs, strict=False):
                before = (was.get("raw") or {}).get("scale", 1.0)
                now = 1.0 if obs.raw is None else obs.raw.scale
                if before != now:
                    warn(
                        f"behavior '{name}': observation '{obs.name}' was multiplied by {before:.3g} when this run was "
                        f"saved and is multiplied by {now:.3g} now, so what was learned from it does not fit: better "
                        "start a new run"
                    )

    @contextmanager
    def explaining_mismatches(
        self, settings: RunSettings, folder: RunFolder, learners: Mapping[str, Learner]
    ) -> Iterator[None]:
        """Turns the exception for a checkpoint that does not fit into an error that says what to do."""
        if self._configuration is None and self.checkpoint is not None:
            self._configuration = _configuration(folder)
        try:
            yield
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            if isinstance(error, CheckpointError | ConfigError) or self.checkpoint is None:
                raise
            raise self._mismatch(error, settings, folder, learners) from error

    def _mismatch(
        self, error: Exception, settings: RunSettings, folder: RunFolder, learners: Mapping[str, Learner]
    ) -> CheckpointError:
        assert self.checkpoint is not None
        text = str(error).strip() or type(error).__name__
        reason = text.splitlines()[-1].strip()
        changed = self._changes(settings, of_shape=True) if "loading state_dict" in text else ""
        if (mismatch := MISMATCH.search(text)) is not None:
            key, there, here = mismatch.groups()
            reason = f"its weights '{key}' are {_sizes(there)}, and {_sizes(here)} are expected"
        could = self._could_initialize(learners)
        anew = f", or start a new run from it with --initialize-from={folder.run_id}" if could else ""
        also = "" if changed else self._changes(settings)
        why = changed or f"{reason}{f'; changed since: {also}' if also else ''}"
        place = folder.path / CONFIGURATION
        kept = _configuration(folder) == self._configuration
        advice = f"resume with the settings it was trained with ({place})" if kept else f"change that back in {place}"
        return CheckpointError(
            f"{self.checkpoint.path} does not fit this environment and these settings: {why}; {advice}{anew}"
        )

    def _changes(self, settings: RunSettings, *, of_shape: bool = False) -> str:
        try:
            tree = yaml.safe_load(self._configuration or "")
            before = load(tree, own_code=False).settings if isinstance(tree, Mapping) else settings
        except (PalaestraError, yaml.YAMLError):
            return ""
        found = changes(before, settings, of_shape=of_shape)
        more = [f"{len(found) - MOST_CHANGES} more"] if len(found) > MOST_CHANGES else []
        return "; ".join(found[:MOST_CHANGES] + more)

    def _could_initialize(self, learners: Mapping[str, Learner]) -> bool:
        assert self.checkpoint is not None
        state: Any = self.checkpoint.state
        try:
            return all(
                could_start(one.trainer.network, state[name]["trainer"]["network"]) for name, one in learners.items()
            )
        except (KeyError, TypeError, AttributeError):
            return False


def _configuration(folder: RunFolder) -> str:
    try:
        return (folder.path / CONFIGURATION).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _sizes(shape: str) -> str:
    return shape.replace(", ", " x ") or "a number"


def steps_in(checkpoint: Checkpoint) -> dict[str, int]:
    """Returns the decisions of each behavior at a checkpoint."""
    run: Any = checkpoint.state["run"]
    return {name: collector["decisions"] for name, collector in run["collector"]["behaviors"].items()}
