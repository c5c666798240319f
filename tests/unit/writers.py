"""Pairs of processes that write to one run: forked, so that a pair costs no imports. Run as a program: `writers.py
FOLDER PAIRS SEED`.

Prints a JSON object a pair: how it was started, the exit code and the last words of each, and what the winner left.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from small_runs import differences, settings, state

import palaestra
from palaestra.core.errors import PalaestraError

STEPS = 1500
LATER = (
    "matplotlib.figure",
    "tensorboard.compat.proto.event_pb2",
    "onnxruntime",
    "palaestra.onnx_export.onnx",
    "palaestra.envs.builtin.basic.env",
)
"""What a training imports when it needs it."""
SPAN = 1.0
"""Seconds within which the second begins."""


def train(results: Path, **more: Any) -> palaestra.Result:
    config = settings("Basic", more.pop("max_steps", STEPS), summary_freq=500, checkpoint_interval=500)
    return palaestra.train(
        config, env="Basic", num_areas=3, seed=7, results_dir=str(results), run_id="run", quiet=True, **more
    )


def writer(results: Path, at: float, how: dict[str, Any], words: Path) -> int:
    """Starts a process that trains from `at` on, and writes an error's message to a file."""
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        time.sleep(max(0.0, at - time.monotonic()))
        train(results, **how, callbacks=[lambda _: time.sleep(SPAN / 3)])  # so that the two are sure to meet
        code = 0
    except PalaestraError as error:
        words.write_text(str(error))
        code = 1
    except BaseException:
        words.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def pair(results: Path, begun: Path, number: int, rng: random.Random) -> dict[str, Any]:
    """Two writers of one kind, the second a random moment after the first."""
    kind = ("new", "resume", "force")[number % 3]
    if kind != "new":
        shutil.copytree(begun, results)
    results.mkdir(exist_ok=True)
    how: dict[str, Any] = {} if kind == "new" else {kind: True}
    offset = rng.choice((0.0, rng.random() * 0.05, rng.random() * SPAN))
    now = time.monotonic() + 0.05
    words = [results / f"words-{i}" for i in range(2)]
    children = [writer(results, now + i * offset, how, words[i]) for i in range(2)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    said = [file.read_text() if file.exists() else "" for file in words]
    return {"kind": kind, "offset": offset, "codes": codes, "said": said}


def main() -> None:
    folder = Path(sys.argv[1])
    pairs = int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]))
    for module in LATER:
        import_module(module)
    if not os.fork():  # what is compared with comes from a process of its own: this one must stay without threads
        train(folder / "whole")
        train(folder / "begun", callbacks=[lambda summary: summary.step == 500])
        os._exit(0)
    os.wait()
    whole = state(folder / "whole" / "run")
    for number in range(pairs):
        results = folder / f"pair-{number}"
        told = pair(results, folder / "begun", number, rng)
        run = results / "run"
        steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        hidden = [path.name for path in run.rglob(".*")]
        print(
            json.dumps({**told, "differs": differences(whole, state(run)), "steps": steps, "hidden": hidden}),
            flush=True,
        )
        shutil.rmtree(results)


if __name__ == "__main__":
    main()
