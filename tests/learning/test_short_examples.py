"""The short examples, run as they stand in a folder of their own, do what they say.

All ten take about ten minutes.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "short"
CLAIMS = {
    "image_env": (r"^mean reward (\S+)", 0.8),
    "policy_in_a_loop": (r"stood for (\d+) steps; PyTorch was not imported", 400),
    "two_settings": (r"^fast +3 +(\S+)", 90),
    "callbacks": (r"mean reward (\S+) ±", 450),
    "tune_settings": (r"mean reward (\S+) ±", 200),
    "resume_and_lessons": (r"Finished at step 60,000: .* reward (\S+) ", 0.9),
    "imitate_a_rule": (r"the policy that imitates it (\S+)", 95),
    "own_game": (r"mean reward (\S+) ±", 0.9),
    "pettingzoo_teams": (r"hunter: .*, group reward (\S+), Elo", 0.3),
    "teams_on_ray": (r"Elo (\d+) \(last", 1300),
}
"""What each prints, a number in it, and how large this must be."""


def test_every_example_is_short_and_has_a_claim():
    lines = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lines.keys() == CLAIMS.keys()
    assert max(lines.values()) < 60


@pytest.mark.slow
@pytest.mark.parametrize(("example", "claim"), CLAIMS.items())
def test_an_example_does_what_it_says(example: str, claim: tuple[str, float], tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    command = [sys.executable, str(EXAMPLES / f"{example}.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout + done.stderr
    found = re.findall(claim[0], said, re.MULTILINE)
    assert found, said[-3000:]
    assert float(found[-1]) >= claim[1]
    assert len([path for path in tmp_path.iterdir() if path.suffix in {".png", ".gif"}]) == 1
