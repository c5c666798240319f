"""The cores that a process may use, within its affinity and the limits of control groups."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.core.processes import usable_cores

MANY = 64


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    (tmp_path / "membership").write_text("3:cpu,cpuacct:/other\n0::/slice/box\n")
    return tmp_path / "membership"


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(MANY)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: MANY)


@pytest.mark.usefixtures("many_cores")
def test_without_limits_all_cores_may_be_used(tmp_path: Path, membership: Path):
    assert usable_cores(tmp_path, membership) == MANY


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize("folder", ["", "slice", "slice/box"])
@pytest.mark.parametrize(
    ("quota", "cores"), [("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", MANY)]
)
def test_a_quota_of_version_2_counts_at_every_level(
    tmp_path: Path, membership: Path, folder: str, quota: str, cores: int
):
    (tmp_path / "slice/box").mkdir(parents=True)
    (tmp_path / "slice/box/cpu.max").write_text("max 100000\n")
    (tmp_path / folder / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(tmp_path, membership) == cores


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize(("quota", "cores"), [("300000", 3), ("-1", MANY)])
def test_a_quota_of_version_1_counts(tmp_path: Path, membership: Path, quota: str, cores: int):
    (tmp_path / "cpu/other").mkdir(parents=True)
    (tmp_path / "cpu/other/cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu/other/cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path, membership) == cores


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds a process to cores so")
def test_a_process_bound_to_one_core_may_use_one():
    bind = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    program = f"{bind}; from palaestra.core.processes import usable_cores; print(usable_cores())"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "1"
