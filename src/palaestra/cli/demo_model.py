"""Compares recorded actions with a model's actions (`palaestra demo FILE.demo --model M.onnx`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import ConfigError, DemoError, PolicyError

if TYPE_CHECKING:
    from palaestra.brains.model import Policy
    from palaestra.demos import DemoSource
    from palaestra.runtime.recorded_play.play_check import PlayVerdict

FEW = 20
"""Decisions below which agreement proves little."""
LISTED = 5
"""Number of differences that are listed."""


def models_of(names: Sequence[str]) -> list[Policy]:
    """Returns the named models, and the models in named folders. Raises PolicyError."""
    from palaestra.brains.model import load_policy
    from palaestra.core.files import MODEL_FILES
    from palaestra.hub.hub_names import is_hub_name

    files: list[Path | str] = []
    for name in names:
        path = Path(name)
        if is_hub_name(name) or not path.is_dir():
            files.append(name)
            continue
        inside = sorted(file for file in path.rglob("*") if file.suffix in MODEL_FILES)
        if not inside:
            raise ConfigError(f"--model {path}: the folder has no model files ({', '.join(MODEL_FILES)})")
        files += sorted(inside, key=lambda file: len(file.relative_to(path).parts))  # a run's newest before older ones
    return [load_policy(file) for file in files]


def compared(demo: DemoSource, models: Sequence[Policy]) -> dict[str, Any]:
    """Compares a recording with the model of its behavior. Raises PolicyError if none of the models fits it."""
    from palaestra.runtime.recorded_play.model_odds import inputs_of
    from palaestra.runtime.recorded_play.play_check import check_play
    from palaestra.runtime.recorded_play.played_decisions import played_decisions

    spec = demo.spec
    fitting: list[Policy] = []
    refused: list[PolicyError] = []
    for model in models:
        try:
            inputs_of(model, [obs.name for obs in spec.obs], [obs.shape for obs in spec.obs])
            if (model.continuous_size, model.branches) != (spec.action.continuous, spec.action.branches):
                raise PolicyError(
                    f"{model.path} gives {_actions(model.continuous_size, model.branches)}; the recording has "
                    f"{_actions(spec.action.continuous, spec.action.branches)}"
                )
        except PolicyError as error:
            refused.append(error)
        else:
            fitting.append(model)
    if not fitting:
        raise DemoError(f"{demo.title}: {refused[0]}")
    name = demo.behavior
    fitting.sort(key=lambda model: (model.path.stem != name, not model.path.stem.startswith(f"{name}-")))
    return as_json(check_play(fitting, played_decisions(demo)))


def _actions(continuous: int, branches: Sequence[int]) -> str:
    parts = [f"{continuous} continuous actions"] if continuous else []
    return " and ".join([*parts, *([f"branches of {' x '.join(map(str, branches))} choices"] if branches else [])])


def as_json(verdict: PlayVerdict) -> dict[str, Any]:
    """Returns a verdict as plain values."""
    before, after, fewer = verdict.before, verdict.after, verdict.decisions
    wrong = [] if before.agreement == 1 or before.drawn else [int(row) for row in (~before.same).nonzero()[0][:LISTED]]
    causes = [{"key": cause.key, "what": cause.what, "advice": cause.advice} for cause in verdict.causes]
    if (other := verdict.instead) is not None:
        advice = f"put {verdict.model.path.name} into the game's Behavior Parameters"
        causes = [{"key": "another_model", "what": f"the game plays {other.path}", "advice": advice}]
    return {
        "file": str(verdict.model.path),
        "verdict": "plays" if verdict.plays else "explained" if causes else "unexplained",
        "decisions": len(fewer),
        "episodes": fewer.episodes,
        "agreement": round(before.agreement, 6),
        "sampled": verdict.sampled,
        "expected_if_sampled": round(after.expected, 6),
        "agreement_with_causes": round(after.agreement, 6),
        "causes": causes,
        "tried": verdict.tried,
        "first_differences": [{"decision": row, "of_episode": int(fewer.age[row])} for row in wrong],
        "constant": verdict.constant,
        "undecided": verdict.sampled and not after.informed,
    }


def lines_of(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the findings of a comparison: a word and a sentence for each line."""
    count, sampled = shown["decisions"], shown["sampled"]
    many = f"{count:,} decisions of {shown['episodes']:,} episode{'' if shown['episodes'] == 1 else 's'}"
    likeliest = "of the recorded actions are the model's likeliest ones"
    expected = f" ({share:.1%} are expected to be)" if (share := shown["expected_if_sampled"]) else ""
    drawn = f"; they were drawn from its distribution{expected}" if sampled else ""
    tick = "tick Deterministic Inference in Behavior Parameters"
    how = f"; its actions are drawn at random: {tick} for the likeliest ones" if sampled else ""
    lines = [
        ("model", f"{shown['file']}, compared with {many}"),
        ("agreement", f"{shown['agreement']:.1%} {likeliest}"),
    ]
    if shown["verdict"] == "plays":
        lines += [("agreement", lines.pop()[1] + drawn)]
        lines += [("verdict", f"the game plays this model as it was trained{how}")]
    elif shown["verdict"] == "explained":
        lines += [("cause", cause["what"]) for cause in shown["causes"]]
        lines += [("then", f"{shown['agreement_with_causes']:.1%} {likeliest}{drawn}")]
        lines += [("to change", cause["advice"]) for cause in shown["causes"]]
        lines += [("verdict", f"the game does not play the trained model{how}")]
    else:
        for one in shown["first_differences"]:
            lines += [("difference", f"decision {one['decision']}, the episode's number {one['of_episode']}")]
        nobody = f"not this model's actions, drawn or likeliest, and none of {shown['tried']:,} explanations holds"
        whose = "another version of the model (name several with --model, or their folder), a person, or a heuristic"
        lines += [("verdict", f"{nobody}: {whose}")]
    little = "the model is so undecided about these observations that drawn actions prove little"
    warnings = {
        f"{count} decisions prove little; record a few episodes": count < FEW,
        f"{little}; {tick} and record again": shown["undecided"],
        "the model says the same to all of these observations, which proves little": shown["constant"],
    }
    return [*lines, *(("warning", text) for text, holds in warnings.items() if holds)]
