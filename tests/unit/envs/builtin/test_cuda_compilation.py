"""Kernels of the built-in environments compile for CUDA; Warp brings the compiler, so that no GPU is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.core.plugins import registry

MOST_SECONDS = 120  # a GPU's first launch waits for this; loops that are written out took more than ten minutes
COMPILE = """
import sys
import palaestra, warp
env = palaestra.make(sys.argv[1], areas=2)
for kernel in {env.program.tick, env.program.begin, env.program.draw} - {None}:
    warp.compile_aot_module(kernel.module, arch=80, module_dir=sys.argv[2], use_ptx=True, strip_hash=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", registry("envs").names())
def test_kernels_compile_for_cuda(name: str, tmp_path: Path):
    if sys.platform == "darwin":
        pytest.skip("Warp has no CUDA compiler for macOS")
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, name, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.ptx"))
