"""The reports of `make test-gpu` and `make bench-gpu`, and the count of waits that the former stands on."""

import sys
from pathlib import Path

import pytest
import torch
import warp as wp

from palaestra.runtime.environments.make import make_env
from waits import counted

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks" / "gpu"), *sys.path])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_report_without_a_device_says_so_before_all_else(scripts: None):
    import report

    text = report.heading("Tests", 12.0)
    assert text.splitlines()[2].startswith(
        "**There is no CUDA device here: all of this ran on the CPU, at a small size.**"
    )
    assert all(f"| {fact} |" in text for fact in ("when", "commit", "processor", "system", "device", "libraries"))


def test_cells_of_a_report_cannot_break_its_tables(scripts: None):
    import report

    assert report.table(("a", "b"), [("x|y", "1\n2")])[2] == "| x\\|y | 1 2 |"


def test_outcomes_are_known_from_a_run_that_was_stopped(scripts: None):
    from run_tests import unfinished

    text = (
        "tests/gpu/test_gpu.py::test_a[PPO] PASSED [ 5%]\ntests/gpu/test_gpu.py::test_b FAILED [ "
        "9%]\ntests/gpu/test_gpu.py::test_c"
    )
    assert unfinished(text) == [("test_a[PPO]", "passed", 0.0, ""), ("test_b", "failed", 0.0, "")]


def test_what_waits_for_a_device_is_counted():
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    make_env("Basic", areas=1, device=str(device)).close()  # starts Warp
    x = torch.arange(4.0, device=device)
    with counted(device) as nothing:
        x.mul(2.0).sum()
    with counted(device) as waits:
        x.sum().item()
        x[x > 1]
        wp.from_torch(x).numpy()
    assert nothing == []
    assert len(waits) >= 3
    assert "warp.array.numpy" in waits
