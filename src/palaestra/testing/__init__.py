"""Contract tests for environments (and later trainers) of ours and of plug-in authors."""

from palaestra.testing.check_env import check_env

__all__ = ["check_env"]
