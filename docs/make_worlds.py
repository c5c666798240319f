"""Writes `docs/reference/unity-examples.md` from `envs/builtin/agreement.yaml`: `python docs/make_worlds.py`.

With `--pictures` it also draws each world into `docs/images/worlds`.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import torch
from PIL import Image

from palaestra.cli.agreement import reached, stated
from palaestra.core.plugins import registry
from palaestra.core.timestep import Action
from palaestra.envs.builtin.agreement import agreements
from palaestra.envs.builtin.sensors.truth import numbers_of
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.recording.filming import drawn
from palaestra.runtime.recording.video_files import flattened

FOLDER = Path(__file__).parent
PAGE = FOLDER / "reference" / "unity-examples.md"
PICTURES = FOLDER / "images" / "worlds"
WIDTH = 320
"""Pixels of a picture's longer side."""
DECISIONS = 40
"""Decisions after which a world is drawn: what falls at the start has come to rest."""

LEARNED = """\
What was learned here with the settings files that ML-Agents has for its examples, unchanged: the mean reward of an
episode in training, where a note says nothing else. Decisions are in millions, until the run was stopped, *of* those
that the file asks for. *Solved* is a run with at least 95 % of what Unity states; *not finished* one that was stopped
before, without it.

"""

NOT_YET = """\
**Not Unity's bodies (in Visual3DBall: not its pictures) yet**, since Unity's own models earn less than 95 % of what
Unity states: {}.

"""

HEAD = """\
# Unity's examples

*Made from `envs/builtin/agreement.yaml` by `docs/make_worlds.py`; edit the sentences there.*

A built-in environment with the name of one of Unity's examples is that example: the same observations, actions,
rewards and physics, so that models cross over both ways. What agrees, what is approximated, and what the models that
Unity trained in its own example reach here, their actions sampled as in Unity, is below; `palaestra envs NAME
--unity` shows it for one.

DungeonEscape, FoodCollector, Hallway, Pyramids, SoccerTwos and VisualFoodCollector can also tell what their agents do
not see: with `env_options: {state: true}` each agent has one more observation, `truth`, for a critic that may see
[more than the agents](../guides/training/critic-only.md). Its numbers stand in the sections; all are about 1 in size.

"""


def page() -> str:
    """Returns the page: a table of Unity's models, then a section for each environment."""
    found = agreements()
    rows = ["| environment | Unity's model | reaches here | Unity states |", "|---|---|---|---|"]
    for name, agreement in found.items():
        rows += [
            f"| [{name}](#{name.lower()}) | {score.model} | {reached(score)} | {stated(score)} |"
            for score in agreement.models
        ]
    runs = [
        "| environment | ML-Agents' settings | reward | decisions | of | seeds | status | Unity states | note |",
        "|---" * 9 + "|",
    ]
    for name, agreement in found.items():
        runs += [
            f"| [{name}](#{name.lower()}) | {run.settings} | {run.reward:g} | {run.decisions:g} | {run.planned:g} | "
            f"{run.seeds} "
            f"| {run.status or '-'} | {stated(run)} | "
            f"{'; '.join(filter(None, (run.behavior, run.measure, run.remark)))} |"
            for run in agreement.learned
        ]
    sections = [section(name) for name in found]
    short = ", ".join(f"[{name}](#{name.lower()})" for name, agreement in found.items() if agreement.falls_short)
    return (
        HEAD
        + "\n".join(rows)
        + "\n\n"
        + NOT_YET.format(short)
        + LEARNED
        + "\n".join(runs)
        + "\n\n"
        + "\n".join(sections)
    )


def section(name: str) -> str:
    """Returns the section of one environment."""
    agreement = agreements()[name]
    lines = [f"## {name}", "", f"![{name}](../images/worlds/{name}.png)", ""]
    lines += ["The same as in Unity:", "", *(f"- {fact}" for fact in agreement.same), ""]
    if agreement.approximate:
        lines += ["Different:", "", *(f"- {fact}" for fact in agreement.approximate), ""]
    lines += truth(name)
    return "\n".join(lines)


def truth(name: str) -> list[str]:
    """Returns the table of an environment's observation `truth`, if it has one."""
    parts = getattr(registry("envs").get(name), "truth", ())
    if not parts:
        return []
    lines = [f"The observation `truth`, {numbers_of(parts)} numbers, with `env_options: {{state: true}}`:", ""]
    lines += ["| numbers | what |", "|---|---|"]
    at = 0
    for words, size in parts:
        lines.append(f"| {at} | {words} |" if size == 1 else f"| {at} to {at + size - 1} | {words} |")
        at += size
    return [*lines, ""]


def draw() -> None:
    """Draws each environment after some decisions of its heuristic, or of doing nothing."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in agreements():
        with closing(EnvWrapper(make_env(f"builtin:{name}", areas=1))) as env:
            steps = env.reset(1)
            for _ in range(DECISIONS):
                steps = env.step({one: act(env, one, len(step.acting)) for one, step in steps.items()})
            picture = Image.fromarray(drawn(env, 0, 2 * WIDTH))
        picture.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
        flattened([picture])[0].save(PICTURES / f"{name}.png", optimize=True)


def act(env: EnvWrapper, behavior: str, slots: int) -> Action:
    """Returns the heuristic's actions, or zeros if there is none."""
    chosen = env.heuristic(behavior)
    spec = env.behaviors[behavior].action
    return chosen or Action(
        torch.zeros(slots, spec.continuous), torch.zeros(slots, len(spec.branches), dtype=torch.int64)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="also draw the worlds")
    if parser.parse_args().pictures:
        draw()
    PAGE.write_text(page(), encoding="utf-8")
