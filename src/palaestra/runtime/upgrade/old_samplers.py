"""Converts old samplers (type and numbers in one map) from a separate file or from `parameter_randomization`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaestra.runtime.settings.format_versions import is_sampler
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import NewTree, UpgradeReport
from palaestra.runtime.upgrade.old_file import OldFile
from palaestra.scenario.settings import SAMPLERS

PARAMETERS = "environment_parameters"
TYPES = {"multirange_uniform": "multirangeuniform"}
NAMES = {"var": "st_dev"}
"""Current names of keys. The old "variance" was used as a standard deviation."""


def convert_samplers(old: OldFile, at: Key, new: NewTree, report: UpgradeReport) -> None:
    """Converts the samplers in the map at `at`."""
    parameters: Any = old.tree
    for key in at:
        parameters = parameters[key]
    if not isinstance(parameters, Mapping):
        raise old.error(f"expected a map of parameters, got {parameters!r}", *at)
    for name, value in parameters.items():
        place = old.place(*at, name)
        if name == "resampling-interval":
            report.became(f"resampling-interval {value}", "left out: values are drawn for each episode")
        elif name in new.at((PARAMETERS,)):
            report.warn(place, f"'{name}' is left out: it is already defined at {new.place((PARAMETERS, name))}")
        elif is_sampler(value):
            convert_sampler(old, (*at, name), (PARAMETERS, name), new, report)
        else:
            new.put((PARAMETERS, name), value, place)  # a number, or already as it is today


def convert_sampler(old: OldFile, at: Key, to: Key, new: NewTree, report: UpgradeReport) -> None:
    """Converts the sampler at `at` to the path `to`."""
    value: Any = old.tree
    for above in at:
        value = value[above]
    place = old.place(*at)
    key = "sampler-type" if "sampler-type" in value else "sampler_type"
    kind = TYPES.get(value[key], value[key])
    new.put((*to, "sampler_type"), kind, old.place(*at, key))
    new.put((*to, "sampler_parameters"), {}, place)
    known = SAMPLERS[kind].model_fields if kind in SAMPLERS else ()
    for inner, number in value.items():
        if inner == key:
            continue
        now = str(NAMES.get(inner, inner))
        if known and now not in known:
            report.warn(old.place(*at, inner), f"unknown key '{inner}' of a {kind} sampler: left out")
        else:
            remark = f"was {inner}" if now != inner else ""
            new.put((*to, "sampler_parameters", now), number, old.place(*at, inner), remark)
    report.became(f"{to[-1]} (sampler)", PARAMETERS)
    new.cite(to, place)
