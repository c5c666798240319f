"""Scores of those who play, with numbers worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from palaestra.core.timestep import TimeStep
from palaestra.runtime.playback.tally import PERSON, PERSON_K, PERSON_START, PersonRating, Tally
