"""Reads Minari datasets as demonstrations, an episode at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.core.errors import DemoError, EmptyDemo, EnvError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import format_bytes, free_memory
from palaestra.datasets.dataset_form import DatasetForm, form_of_our_env, in_file_order, unit_differences
from palaestra.datasets.minari_episode import EpisodeRecords
from palaestra.datasets.minari_library import (
    UNASKED,
    data_folder,
    declared_bytes,
    open_storage,
    storage_type,
    unreadable,
)
from palaestra.demos import DemoColumns, DemoSource, ReadTiming
from palaestra.demos.record_columns import join

OURS = "palaestra/"
"""Prefix of the ids of Palaestra's environments in Gymnasium."""
TOGETHER = 1 << 20
"""Bytes of short episodes that are read together as one chunk."""
DECODED = 32 << 20
"""Most bytes of observations that are converted at once."""


@dataclass(frozen=True, kw_only=True)
class MinariDemo(DemoSource):
    """An open Minari dataset, which is read an episode at a time."""

    folder: Path
    metadata: Mapping[str, Any]
    """Entries of its metadata file."""
    form: DatasetForm
    storage: Any

    @property
    def total_episodes(self) -> int:
        """Episodes by the metadata."""
        return int(self.metadata["total_episodes"])

    @property
    def identity(self) -> tuple[object, ...]:
        """A fingerprint that changes with the dataset's contents."""
        files = sorted(self.folder.iterdir())
        return (
            self.folder.absolute(),
            *((file.name, found.st_size, found.st_mtime_ns) for file in files if (found := file.stat())),
        )

    def must_fit(self, own: BehaviorSpec, spec: BehaviorSpec) -> None:
        """Raises DemoError if the dataset's numbers (spec `own`) mean something else than the behavior's numbers
        (`spec`), despite equal shapes."""
        lines = [] if self.form.own else unit_differences(own, spec)
        if lines:
            raise DemoError(
                f"{self.title} has other spaces than the behavior, so the same numbers mean something else "
                "(the dataset's, then the "
                f"behavior's):\n" + "\n".join(lines)
            )

    def described(self) -> dict[str, Any]:
        """Returns facts of the dataset's metadata, with `environment`, `author` and others if they are given."""
        metadata = self.metadata
        author = metadata.get("author")
        return {
            "format": metadata.get("data_format"),
            "minari_version": metadata.get("minari_version"),
            "steps": self.most_decisions,
            "metadata_episodes": self.total_episodes,
            "environment": _env_id(metadata) or None,
            "author": ", ".join(sorted(map(str, author))) if isinstance(author, list) else author,
            "algorithm": metadata.get("algorithm_name"),
            "description": metadata.get("description"),
            "combined": metadata.get("combined_datasets") or None,
            "megabytes": metadata.get("dataset_size"),
        }

    def metadata_problems(self, decisions: int, done: int, reward: float) -> list[str]:
        """Returns a line if the metadata has another number of steps than was read."""
        if decisions == self.most_decisions:
            return []
        return [f"its metadata counts {self.most_decisions:,} steps; its episodes have {decisions:,}"]

    def chunks(self) -> Iterator[DemoColumns]:
        """Yields all records in order, short episodes together and long ones in pieces."""
        first = 0
        parts = list[DemoColumns]()
        size = 0
        for columns in self._pieces():
            parts.append(columns)
            size += sum(column.nbytes for column in columns.obs)
            if size >= TOGETHER or len(parts) >= 512:
                yield replace(join(parts), first=first)
                first = first + sum(map(len, parts))
                parts = []
                size = 0
        if parts:
            yield replace(join(parts), first=first)

    def _pieces(self) -> Iterator[DemoColumns]:
        step = max(1, DECODED // (4 * sum(int(np.prod(obs.shape)) for obs in self.spec.obs) + 1))
        steps = 0
        open_id = -1
        for number, episode in enumerate(self._raw_episodes()):
            where = f"{self.title}, episode {number}"
            try:
                records = EpisodeRecords(self.form, episode, number)
                steps += records.steps
                if steps > self.most_decisions:
                    raise DemoError(
                        f"{self.title} is damaged: its metadata counts {self.most_decisions:,} steps; more were read"
                    )
                if open_id >= 0 and records.id[0] == open_id:
                    records.id += 1  # or two episodes without an end would become one
                for begin in range(0, len(records), step):
                    yield records.columns(begin, begin + step)
                open_id = -1 if records.done[-1] else int(records.id[-1])
            except DemoError:
                raise
            except EnvError as error:
                raise DemoError(f"{where}: {str(error).replace('area ', 'step ', 1)}") from error
            except Exception as error:  # arrays of any other form
                raise unreadable(where, error) from error

    def _raw_episodes(self) -> Iterator[dict[str, Any]]:
        """Yields the episodes as Minari reads them. Raises DemoError if one is damaged or exceeds memory."""
        lengths = iter(())
        episodes = iter(())
        for number in range(self.total_episodes):
            where = f"{self.title}, episode {number}"
            try:
                if not number:
                    lengths = iter(self.storage.get_episode_metadata(range(self.total_episodes)))
                given = next(lengths).get("total_steps")
                expected = None if given is None else int(given)
                self._must_be_readable(where, expected, number)
                if not number:
                    episodes = iter(self.storage.get_episodes(range(self.total_episodes)))
                episode = next(episodes)
            except StopIteration:
                raise DemoError(
                    f"{self.title} is damaged: it holds {number} episodes; its metadata counts {self.total_episodes}"
                ) from None
            except DemoError:
                raise
            except Exception as error:  # whatever Minari does with damaged data
                raise unreadable(where, error) from error
            came = len(episode["rewards"])
            if expected is not None and came != expected:
                raise DemoError(
                    f"{where}: only {came:,} of its {expected:,} steps were read (Minari reads only the beginning of "
                    "very long episodes from arrow and parquet files; in the format hdf5 it reads all)"
                )
            yield episode

    def _must_be_readable(self, where: str, steps: int | None, number: int) -> None:
        steps = steps or 0
        size = max(steps * self.form.row_bytes, declared_bytes(self.folder, number, where))
        if size > UNASKED and size > (free := free_memory()):
            raise DemoError(
                f"{where} takes {format_bytes(size)} of memory for its {steps:,} steps, and {format_bytes(free)} are "
                "free; an episode is read as a whole: write it in several, or free memory"
            )


def read_minari(source: str) -> MinariDemo:
    """Opens a Minari dataset on this machine: `minari:ID` or `minari:FOLDER`. Raises EmptyDemo and DemoError."""
    storage_type()
    folder = data_folder(source)
    storage, metadata = open_storage(folder, source)
    try:
        episodes = int(metadata["total_episodes"])
        steps = int(metadata["total_steps"])
        name = str(metadata.get("dataset_id", folder.parent.name))
        observation_space, action_space = (
            _space(getattr(storage, key), metadata.get(key)) for key in ("observation_space", "action_space")
        )
        env = _env_id(metadata)
        behavior = _behavior(env, name)
    except Exception as error:  # metadata of any other form
        raise unreadable(source, error, " from its metadata") from error
    if episodes < 1 or steps < 1:
        raise EmptyDemo(f"{source} is an empty dataset: its metadata counts {episodes} episodes and {steps} steps")
    if episodes > steps:
        raise DemoError(
            f"{source} is damaged: its metadata counts {episodes} episodes of {steps} steps; expected at least one "
            "step for each"
        )
    try:
        form = form_of_our_env(observation_space, action_space) if env.startswith(OURS) else None
        form = form or DatasetForm(observation_space, action_space)
    except EnvError as error:
        raise DemoError(f"{source}: {error}") from error
    except Exception as error:  # metadata of any other form
        raise unreadable(source, error, " from its metadata") from error
    return MinariDemo(
        title=source,
        name=name,
        behavior=behavior,
        team=0,
        spec=form.spec,
        timing=ReadTiming.NEXT,
        records=steps + episodes,  # one more for each episode than it has decisions
        most_decisions=steps,
        folder=folder,
        metadata=metadata,
        form=form,
        storage=storage,
    )


def _behavior(env: str, id: str) -> str:
    """Returns the name that the behavior has in the environment of a dataset; without an environment, the dataset's."""
    if env.startswith(OURS):
        return re.sub(r"-v\d+$", "", env.removeprefix(OURS))
    return env.rpartition(":")[2].replace("/", "-") or re.sub(r"-v\d+$", "", id).rpartition("/")[2]


def _env_id(metadata: Mapping[str, Any]) -> str:
    return str(json.loads(metadata["env_spec"]).get("id", "")) if metadata.get("env_spec") else ""


def _space(space: Any, written: Any) -> Any:
    return in_file_order(space, json.loads(written)) if isinstance(written, str) else space
