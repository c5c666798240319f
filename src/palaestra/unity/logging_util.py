"""Loggers whose level is set in one place."""

from __future__ import annotations

import logging
from logging import CRITICAL, DEBUG, ERROR, FATAL, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARNING", "get_logger", "set_log_level"]

_ROOT = logging.getLogger("palaestra.unity")
_SHORT = logging.Formatter("[%(levelname)s] %(message)s")
_LONG = logging.Formatter("%(asctime)s %(levelname)s [%(filename)s:%(lineno)d] %(message)s", "%Y-%m-%d %H:%M:%S")
_loggers: dict[str, logging.Logger] = {}


def get_logger(name: str) -> logging.Logger:
    """A logger that `set_log_level` also sets."""
    logger = logging.getLogger(name)
    if _ROOT.level and not _is_ours(name):
        logger.setLevel(_ROOT.level)
    return _loggers.setdefault(name, logger)


def set_log_level(log_level: int) -> None:
    """Sets all loggers of `get_logger`, and writes what this package logs to stderr; with file and line from DEBUG on."""
    if not _ROOT.handlers:
        _ROOT.addHandler(logging.StreamHandler())
    for handler in _ROOT.handlers:
        handler.setFormatter(_LONG if log_level == DEBUG else _SHORT)
    _ROOT.setLevel(log_level)
    for name, logger in _loggers.items():
        if not _is_ours(name):
            logger.setLevel(log_level)


def _is_ours(name: str) -> bool:
    """Takes its level from the package's own."""
    return name == _ROOT.name or name.startswith(f"{_ROOT.name}.")
