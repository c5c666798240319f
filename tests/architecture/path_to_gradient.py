"""Measures what `palaestra.train` runs through from the environment to the gradient, with PPO on 3DBall, as the
profiler sees it.

As a program it prints the files in the order in which they are reached, with their lines, and the sums. A process of
its own is free of what other tests imported, patched or left to the garbage collector.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from source import PACKAGE

import palaestra

SETTINGS = {
    "behaviors": {
        "3DBall": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 128, "num_epoch": 1},
            "network_settings": {"normalize": True, "hidden_units": 32, "num_layers": 2},
            "max_steps": 600,
            "summary_freq": 100000,
        }
    }
}
STEP = ("envs/builtin/base/env.py", "step")
OPTIMIZER = ("models/optimizer.py", "step")
Call = tuple[str, str]


@dataclass(frozen=True)
class Span:
    """The calls between two moments of a run."""

    calls: list[Call]

    @property
    def files(self) -> list[str]:
        """The files in the order in which they are reached."""
        return list(dict.fromkeys(file for file, _ in self.calls))

    @property
    def lines(self) -> int:
        """Lines of these files."""
        return sum(len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) for file in self.files)

    @property
    def functions(self) -> int:
        """Different functions that are called."""
        return len(set(self.calls))

    @property
    def hops(self) -> int:
        """Calls into another file than the call before."""
        return sum(one[0] != other[0] for one, other in zip(self.calls, self.calls[1:], strict=False))

    def __str__(self) -> str:
        sums = f"{len(self.files)} files, {self.lines:,} lines, {self.functions} functions, {self.hops} hops"
        return "\n".join([*self.files, sums])


def called() -> list[Call]:
    """The package's functions in the order in which a short run calls them."""
    found = list[Call]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            file = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            found.append((file, frame.f_code.co_name))

    with tempfile.TemporaryDirectory() as place:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            palaestra.train(SETTINGS, env="builtin:3DBall", num_areas=16, seed=1, quiet=True, results_dir=place)
        finally:
            sys.setprofile(before)
    return found


def spans() -> tuple[Span, Span]:
    """From the last `Env.step` of a rollout to the first optimizer step; from that `Env.step` to the same of the next
    rollout.
    """
    calls = called()
    updates = [i for i, call in enumerate(calls) if call == OPTIMIZER]
    steps = [i for i, call in enumerate(calls) if call == STEP]
    begins = [max(step for step in steps if step < update) for update in updates]
    first, second = list(dict.fromkeys(begins))[1:3]
    end = next(update for update in updates if update > first)
    return Span(calls[first : end + 1]), Span(calls[first : second + 1])


if __name__ == "__main__":
    to_gradient, cycle = spans()
    print(to_gradient)
    print("whole cycle")
    print(cycle)
