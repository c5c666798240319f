"""Runs the short examples and keeps the picture of each: `python docs/make_examples.py [NAME...]` (ten minutes).

Each program of `examples/short` writes one picture, which `examples/README.md` shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageSequence

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "short"
PICTURES = ROOT / "docs" / "images" / "examples"
SIZE = (440, 300)


def run(name: str) -> Path:
    """Runs an example in a folder of its own, and returns the picture that it wrote there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], cwd=folder, check=True, env=environment())
        (written,) = [path for path in Path(folder).iterdir() if path.suffix in {".png", ".gif"}]
        return keep(written, PICTURES / f"{name}.webp")


def environment() -> dict[str, str]:
    """Returns the environment variables of an example: processes of its own find the program as a module."""
    return {**os.environ, "PYTHONPATH": str(EXAMPLES), "OMP_NUM_THREADS": "1"}


def keep(picture: Path, out: Path) -> Path:
    """Writes a picture, moving or not, as a small WebP."""
    with Image.open(picture) as opened:
        pause = opened.info.get("duration", 100)
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]
    for frame in frames:
        frame.thumbnail(SIZE, Image.Resampling.LANCZOS)
    out.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=pause, loop=0, quality=80)
    return out


if __name__ == "__main__":
    for example in sys.argv[1:] or sorted(path.stem for path in EXAMPLES.glob("*.py")):
        print(f"Wrote {run(example).relative_to(ROOT)}")
