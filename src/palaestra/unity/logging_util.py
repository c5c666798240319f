"""Loggers with a common level."""

from __future__ import annotations

import logging
from logging import CRITICAL, DEBUG, ERROR, FATAL, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARNING", "get_logger", "set_log_level"]

_ROOT = logging.getLogger("palaestra.unity")
_SHORT = logging.Formatter("[%(levelname)s] %(message)s")
_LONG = logging.Formatter("%(asctime)s %(levelname)s [%(filename)s:%(lineno)d] %(message)s", "%Y-%m-%d %H:%M:%S")
_loggers: dict[str, logging.Logger] = {}


def get_logger(name: str) -> logging.Logger:
    """Returns a logger whose level `set_log_level` sets."""
    logger = logging.getLogger(name)
    if _ROOT.level and not _is_ours(name):
        logger.setLevel(_ROOT.level)
    return _loggers.setdefault(name, logger)


def set_log_level(log_level: int) -> None:
    """Sets the level of all loggers of `get_logger`, and logs this package to stderr; at DEBUG with file and line."""
    if not _ROOT.handlers:
        _ROOT.addHandler(logging.StreamHandler())
    for handler in _ROOT.handlers:
        handler.setFormatter(_LONG if log_level == DEBUG else _SHORT)
    _ROOT.setLevel(log_level)
    for name, logger in _loggers.items():
        if not _is_ours(name):
            logger.setLevel(log_level)


def _is_ours(name: str) -> bool:
    return name == _ROOT.name or name.startswith(f"{_ROOT.name}.")
