"""Free memory within the limits of control groups, and freed memory that glibc keeps."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from palaestra.core.system_memory import format_bytes, free_memory


def laid(root: Path, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    (tmp_path / "membership").write_text("4:memory:/box\n3:cpu,cpuacct:/other\n0::/slice/box\n")
    return tmp_path / "membership"


def test_without_control_groups_free_memory_is_that_of_the_machine(tmp_path: Path):
    free = free_memory(tmp_path / "none", tmp_path / "nowhere")
    assert free == pytest.approx(psutil.virtual_memory().available, rel=0.1)


@pytest.mark.parametrize("folder", ["", "slice", "slice/box"])
def test_a_cgroup_v2_limit_counts_at_every_level(tmp_path: Path, membership: Path, folder: str):
    laid(tmp_path / "slice/box", memory__max="max\n", memory__current="1\n")
    laid(
        tmp_path / folder,
        memory__max="1000000\n",
        memory__current="400000\n",
        memory__stat="anon 300000\ninactive_file 50000\n",
    )
    assert free_memory(tmp_path, membership) == 650_000


def test_a_cgroup_v1_limit_counts(tmp_path: Path, membership: Path):
    files = {
        "memory__limit_in_bytes": "1000000",
        "memory__usage_in_bytes": "1000005",
        "memory__stat": "inactive_file 7\ntotal_inactive_file 8",
    }
    laid(tmp_path / "memory/box", **files)
    laid(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712", memory__usage_in_bytes="5")
    assert free_memory(tmp_path, membership) == 3


def test_usage_above_the_limit_leaves_no_free_memory(tmp_path: Path, membership: Path):
    laid(tmp_path, memory__max="10", memory__current="20")
    assert free_memory(tmp_path, membership) == 0


PROGRAM = """
import resource
import numpy as np
from palaestra.core.system_memory import format_bytes, keep_freed_memory

if {kept}:
    keep_freed_memory()
    keep_freed_memory()
np.ones(10_000_000)  # 80 MB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(10_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(kept: bool) -> int:
    """Returns the number of new memory pages that five large arrays need, one after another."""
    program = [sys.executable, "-c", PROGRAM.format(kept=kept)]
    return int(subprocess.run(program, capture_output=True, check=True, timeout=180).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is told")
def test_memory_freed_by_a_large_array_is_reused_by_the_next():
    # how many pages there are depends on the system's page size
    assert page_faults(kept=True) < 0.5 * page_faults(kept=False)


def test_sizes_are_written_for_people():
    assert [format_bytes(n) for n in (512, 3 << 20, 5 << 30)] == ["0.5 KiB", "3.0 MiB", "5.0 GiB"]
