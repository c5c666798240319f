"""Makes the picture of a league in the guide to self-play: `python docs/make_training_pictures.py league`.

It trains RingOut for 600,000 decisions (a minute of a core) unless `results/ring` is there, and plays its league.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from palaestra.cli.main import main as palaestra

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TRAINING = [str(ROOT / "configs/ppo/RingOut.yaml"), "--env=RingOut", "--run-id=ring", "--max-steps=6e5", "--seed=1"]


def league(results: Path) -> Path:
    """Plays the snapshots of a run of RingOut against each other. Returns the picture."""
    place = f"--results-dir={results}"
    if not (results / "ring" / "RingOut.onnx").is_file():
        run(["learn", *TRAINING, place])
    run(["league", "ring", "--games=50", place])
    return Path(shutil.copy(results / "ring" / "league.png", IMAGES / "league.png"))


def run(words: list[str]) -> None:
    """Runs a command of Palaestra. Raises SystemExit if it fails."""
    if status := palaestra(words):
        raise SystemExit(status)


PICTURES = {"league": league}


def main() -> None:
    """Makes the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"pictures ({', '.join(PICTURES)}); none: all")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="folder of all runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(PICTURES):
        parser.error(f"no pictures: {', '.join(sorted(unknown))}")
    for name in options.names or PICTURES:
        print(f"{name}: {PICTURES[name](options.results.resolve())}")


if __name__ == "__main__":
    main()
