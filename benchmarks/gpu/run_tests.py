"""Runs the tests that are marked `gpu`, within ten minutes, and writes a report of them.

usage: python benchmarks/gpu/run_tests.py [--out FILE] [ARGUMENT OF PYTEST ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from report import MINUTES, ROOT, heading, table, write


def main() -> int:
    """Runs the tests. Returns pytest's exit status, or 1 if the time was up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("results/test-gpu.md"), metavar="FILE", help="report (default: %(default)s)"
    )
    options, others = parser.parse_known_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines.txt")
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "--verbose", f"--junitxml={folder}/tests.xml", *others]
        with lines.open("w", encoding="utf-8") as out:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            )
            status = follow(process, out, start + 60 * MINUTES)
        seconds = time.monotonic() - start
        tests = (
            outcomes(Path(folder, "tests.xml")) if status is not None else unfinished(lines.read_text(encoding="utf-8"))
        )
    counts = Counter(outcome for _, outcome, _, _ in tests)
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no test ran"
    late = (
        []
        if status is not None
        else ["", f"**Stopped after {MINUTES:g} minutes: the tests below are those that were done by then.**"]
    )
    failures = [
        line
        for name, outcome, _, why in tests
        if outcome == "failed"
        for line in ("", f"### {name}", "```", why[-3000:], "```")
    ]
    listed = table(
        ("test", "outcome", "seconds"), [(name, outcome, f"{spent:.1f}") for name, outcome, spent, _ in tests]
    )
    write(options.out, [heading("Tests for a GPU", seconds), *late, "", f"## {said}", "", *listed, *failures])
    return 1 if status is None else status


def follow(process: subprocess.Popen[str], out: object, deadline: float) -> int | None:
    """Runs a command, prints its output and writes it to a file. Returns its exit status, or None if it was stopped at
    the deadline.
    """
    import threading

    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        process.kill()

    clock = threading.Timer(max(deadline - time.monotonic(), 0.0), stop)
    clock.start()
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        out.write(line)  # type: ignore[attr-defined]
    clock.cancel()
    status = process.wait()
    return None if stopped.is_set() else status


def outcomes(file: Path) -> list[tuple[str, str, float, str]]:
    """Returns name, outcome, seconds and reason of each test from pytest's report."""
    found = []
    for case in ElementTree.parse(file).iter("testcase") if file.exists() else ():
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcome = "passed" if problem is None else "skipped" if problem.tag == "skipped" else "failed"
        reason = "" if problem is None else problem.text or problem.get("message", "")
        found.append((case.get("name", "?"), outcome, float(case.get("time", 0)), reason))
    return found


def unfinished(text: str) -> list[tuple[str, str, float, str]]:
    """Returns the same from the lines that pytest printed."""
    words = (line.split() for line in text.splitlines() if "::" in line)
    return [
        (line[0].partition("::")[2], line[1].lower(), 0.0, "")
        for line in words
        if len(line) > 1 and line[1] in ("PASSED", "FAILED", "SKIPPED")
    ]


if __name__ == "__main__":
    sys.exit(main())
