"""Contract tests for environments and trainers, those of Palaestra and those of plug-in authors."""

from palaestra.testing.check_env import check_env
from palaestra.testing.check_trainer import check_trainer

__all__ = ["check_env", "check_trainer"]
