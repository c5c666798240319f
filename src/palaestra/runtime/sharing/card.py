"""Writes the model card of a run: its README on the Hub, with tags, rewards, curves, a recording and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from palaestra.core.display import escaped
from palaestra.core.versions import palaestra_version
from palaestra.hub.hub_names import HubName
from palaestra.runtime.sharing.results import Row

MARK = "<!-- written by palaestra push; remove this line to keep your own card -->"
"""Line by which a later push knows that it may replace the card."""
PICTURES = (".gif", ".png", ".jpg")


def model_card(name: HubName, rows: Sequence[Row], settings: Mapping[str, Any], files: Sequence[str]) -> str:
    """Returns the card as Markdown with metadata. `settings`: the tree without private details; `files`: the paths that
    are pushed."""
    trained = sorted({row.trainer.rpartition(":")[2].upper() for row in rows if row.trainer})
    title = f"# {_joined(row.behavior for row in rows)}" + (
        f", trained with {_inline(' and '.join(trained))}" if trained else ""
    )
    environment = (settings.get("env_settings") or {}).get("env_path")
    where = f" in the environment `{_code(str(environment))}`" if environment else ""
    parts = [
        f"---\n{yaml.safe_dump(metadata(name, rows), sort_keys=False, allow_unicode=True)}---",
        MARK,
        title,
        f"{'An agent' if len(rows) == 1 else 'Agents'} trained{where} with the settings and file formats of [Unity "
        f"ML-Agents](https://github.com/Unity-Technologies/ml-agents), by Palaestra {palaestra_version()}.",
        *_recording(files),
        "## Results",
        _table(rows),
        *(["## Learning curves", "![Learning curves](./curves.png)"] if "curves.png" in files else ()),
        "## Use it",
        _usage(name, rows, any(path.startswith("checkpoints/") for path in files)),
        "## Settings",
        _settings(settings, rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def metadata(name: HubName, rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the head of the card: ML-Agents' library name and tags, and the rewards as a model index."""
    names = [escaped(row.behavior) for row in rows]
    tags = [*names, "deep-reinforcement-learning", "reinforcement-learning", *(f"ML-Agents-{name}" for name in names)]
    measured = [row for row in rows if row.mean is not None]
    index = [
        {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": escaped(row.behavior), "type": escaped(row.behavior)},
            "metrics": [{"type": "mean_reward", "value": row.reward, "name": "mean_reward", "verified": False}],
        }
        for row in measured
    ]
    head: dict[str, Any] = {
        "library_name": "ml-agents",
        "tags": list(
            dict.fromkeys((*tags, "unity-ml-agents", "palaestra", *(row.trainer for row in rows if row.trainer)))
        ),
        "pipeline_tag": "reinforcement-learning",
    }
    return head | ({"model-index": [{"name": name.short, "results": index}]} if index else {})


def _recording(files: Sequence[str]) -> list[str]:
    shown = [f"![Recording](./{path})" for path in files if "/" not in path and path.endswith(".gif")][:1]
    films = [path for path in files if "/" not in path and path.endswith((".mp4", ".webm"))]
    return shown or [f'<video src="./{path}" controls autoplay loop muted></video>' for path in films[:1]]


def _table(rows: Sequence[Row]) -> str:
    elo = any(row.elo is not None for row in rows)
    head = ["behavior", "trainer", "model", "steps", "mean reward", "episodes", "measured", *(["Elo"] if elo else ())]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [
            _cell(row.behavior),
            _cell(row.trainer),
            _cell(row.model),
            "" if row.step is None else f"{row.step:,}",
            row.reward,
            "" if row.episodes is None else f"{row.episodes:,}",
            "" if row.mean is None else "by playing the model" if row.evaluated else "at the end of training",
            *(["" if row.elo is None else f"{row.elo:.0f}"] if elo else ()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _usage(name: HubName, rows: Sequence[Row], resumable: bool) -> str:
    one = f"hub:{name.repo}" if len(rows) == 1 else f"hub:{name.repo}/{rows[0].model}"
    trust = "  # reads settings of this repository: see Palaestra's guide on trust"
    more = f"\npalaestra learn --run-id={name.short} --resume" if resumable else ""
    return (
        f"```\npip install 'palaestra[hub]'\npalaestra evaluate hub:{name.repo}{trust}\npalaestra pull "
        f"{name.repo}{more}\n```\n\n"
        f'```python\nimport palaestra\n\npolicy = palaestra.load_policy("{_code(one)}")\nprint(policy)\n```\n\n'
        "In Unity: put the `.onnx` file into the project's assets and name it as the Model in Behavior Parameters."
    )


def _settings(settings: Mapping[str, Any], rows: Sequence[Row]) -> str:
    blocks = settings.get("behaviors") or {}
    shown: dict[str, Any] = {
        "behaviors": {row.behavior: blocks[row.behavior] for row in rows if row.behavior in blocks}
    }
    if len(shown["behaviors"]) < len(rows) and settings.get("default_settings"):
        shown["default_settings"] = settings["default_settings"]
    if settings.get("environment_parameters"):
        shown["environment_parameters"] = settings["environment_parameters"]
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return (
        "All settings are in `configuration.yaml`.\n\n<details><summary>Settings of the "
        f"agents</summary>\n\n{fence}yaml\n{text}{fence}\n\n</details>"
    )


def _joined(names: Any) -> str:
    return _inline(", ".join(names))


def _inline(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|&!])", r"\\\1", escaped(text))


def _cell(text: str) -> str:
    return _inline(text)


def _code(text: str) -> str:
    return escaped(text).replace("`", "'").replace('"', "'")
