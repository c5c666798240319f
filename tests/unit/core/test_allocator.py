from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from palaestra.core.system_memory import keep_freed_memory

if {kept}:
    keep_freed_memory()
    keep_freed_memory()
np.ones(10_000_000)  # 80 MB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    np.ones(10_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(kept: bool) -> int:
    """Pages of fresh memory that five large arrays took, one after another."""
    program = [sys.executable, "-c", PROGRAM.format(kept=kept)]
    return int(subprocess.run(program, capture_output=True, check=True, timeout=60).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is told")
def test_what_a_large_array_leaves_serves_the_next():
    # how many pages there are depends on the system's page size
    assert faults(kept=True) < 0.5 * faults(kept=False)
