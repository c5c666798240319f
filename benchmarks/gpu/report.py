"""The heading of both GPU reports: machine, device, driver and commit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from palaestra.core.thread_waits import shorten_thread_waits

shorten_thread_waits()  # before torch is imported

import psutil
import torch
import warp

import palaestra

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 10.0
"""Time limit of each of the two commands."""


def heading(title: str, seconds: float) -> str:
    """Returns the title, the machine, and whether it has a GPU at all."""
    lines = [f"# {title}", ""]
    if not torch.cuda.is_available():
        lines += [
            "**There is no CUDA device here: all of this ran on the CPU, at a small size.** It shows that the scripts "
            "work, and says nothing of how Palaestra does on a GPU.",
            "",
        ]
    facts = {
        "when": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, in {seconds:.0f} s",
        "commit": commit(),
        **machine(),
    }
    return "\n".join([*lines, *table(("", ""), facts.items())])


def machine() -> dict[str, str]:
    """Returns the processor, device, driver and main libraries."""
    facts = {
        "processor": f"{processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "device": "none: CPU",
        "libraries": f"Palaestra {palaestra.__version__}, torch {torch.__version__}, warp {warp.__version__}",
    }
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        facts["device"] = (
            f"{found.name}, {found.total_memory / 2**30:.0f} GiB, compute capability {found.major}.{found.minor}"
        )
        facts["driver"] = f"{driver()}, CUDA {torch.version.cuda}"
    return facts


def processor() -> str:
    """Returns the name of the machine's processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )


def driver() -> str:
    """Returns the driver's version as nvidia-smi reports it."""
    if shutil.which("nvidia-smi") is None:
        return "unknown (no nvidia-smi)"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip() or "unknown"


def commit() -> str:
    """Returns the commit, and whether files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{git('rev-parse', '--short=12', 'HEAD') or 'unknown'}{changed}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Returns the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    ]


def write(file: Path, lines: Iterable[str]) -> None:
    """Writes a report and prints its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {file}")
