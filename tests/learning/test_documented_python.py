"""Runs the Python programs of the pages that show how to train from Python, as they stand, page by page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "guides/extend/python.md",
    "guides/extend/callbacks.md",
    "guides/extend/own-network.md",
    "coming-from/stable-baselines3.md",
    "coming-from/rllib.md",
    "coming-from/low-level-api.md",
]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave this as `([\w.-]+)`[^\n]*\n+```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOWHERE = "http://127.0.0.1:9/"
"""Stands for the address of a service that takes messages: nobody answers, which a message's thread may say."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_program_of_the_page_runs(page: str, tmp_path: Path):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in SAVED.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    by_name = {content for name, content in SAVED.findall(text) if re.search(rf"^python {name}$", text, re.MULTILINE)}
    for i, program in enumerate(PROGRAM.findall(text)):
        if program in by_name:  # test_documented_commands starts it, beside the files of other pages
            continue
        file = tmp_path / f"program_{i}.py"
        file.write_text(re.sub(r"https://ntfy\.sh/[\w-]+", NOWHERE, program), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, file], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{program}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
