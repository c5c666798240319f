"""Writes the pages of the gallery, `docs/gallery`, with a page for each built-in environment.

    python docs/make_gallery.py                       # the pages, and the pictures of curves that are out of date
    python docs/make_gallery.py --train 3DBall Basic  # first trains what their curves lack: three seeds each
    python docs/make_gallery.py --film 3DBall         # first films them, played by runs in `results`

Sentences stand in `docs/make_gallery.yaml`, how far an environment is Unity's in `envs/builtin/agreement.yaml`;
everything else the environments declare themselves, as `palaestra envs NAME` shows it. A film of Unity's model needs
`--model FILE`, which also plays any other model.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import make_gallery_curves as curves
import make_gallery_unity as unity
import yaml
from make_gallery_films import FILMS, film

from palaestra.core.plugins import registry
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.agreement import agreements
from palaestra.envs.ray_fans import RayFan
from palaestra.envs.traits import EnvTraits
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.settings import load

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "gallery"
IMAGES = ROOT / "docs" / "images" / "gallery"
COLUMNS = 3
CONTENTS = "This page has its observations, actions and rewards, the commands that train it,{} {}."
WIDTH = 140
GROUPS = ("ppo", "poca", "sac", "bc", "imitation")
"""Folders of settings files of runs."""

SHEET = """\
# Gallery

The gallery has a page for each of the {count} built-in environments: what agents observe, what they do and what they
are rewarded for, the commands that train them, and how close the environment is to Unity's example of that name. The
pages of {curves} environments have a learning curve. The environments run inside the training process, without Unity.

```bash
palaestra envs
palaestra envs 3DBall
```

The first command lists the environments in the terminal, the second shows one of them. Pass the name of an environment
to `palaestra learn` with `--env=`.

"""
AFTER = """
Policies that were trained here play in some pictures, Unity's own models or an environment's heuristic (a policy of
fixed rules) in others; the page of each environment says which. PushBlockCollab is a second name of
CooperativePushBlock: Unity gives one name to the scene and the other to the behavior (agents that share one policy).

The pages are made by one command from what the environments declare, from measurements and from sentences. A test says
when they are out of date.

```bash
python docs/make_gallery.py
```

Next: [how far they are Unity's](unity.md), [several seeds and comparing settings](../guides/training/compare.md),
[an environment of your own](../guides/environments/own-environment.md)
"""


@dataclass(frozen=True)
class Declared:
    """Observations, actions, parameters and sizes that an environment declares."""

    behaviors: Mapping[str, BehaviorSpec]
    traits: EnvTraits
    parameters: Mapping[str, float]
    agents: int
    """Agents of one area."""
    areas: int
    """Areas of a run that does not say how many."""
    seconds: float | None
    """Seconds between two decisions."""
    options: tuple[tuple[str, Any], ...]


@cache
def declared(name: str) -> Declared:
    """Returns what an environment declares."""
    factory = registry("envs").get(name)
    with closing(EnvWrapper.of(make_env(f"builtin:{name}", areas=1))) as env:
        agents = sum(len(step.acting) for step in env.reset(1).values())
        takes = [one for one in signature(factory).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        options = tuple((one.name, one.default) for one in takes if one.name not in ("areas", "device"))
        areas = int(getattr(factory, "default_areas", 1))
        shared = env.traits.shared_slots
        agents = agents // len(shared) if shared else agents
        return Declared(env.behaviors, env.traits, env.parameters, agents, areas, env.tick_seconds, options)


@cache
def sentences() -> dict[str, dict[str, Any]]:
    """Returns the sentences about the environments."""
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def pages() -> dict[str, str]:
    """Returns the text of each page by its file's name."""
    names = list(sentences())
    found = {f"{name}.md": alias(name) if "alias" in sentences()[name] else page(name) for name in names}
    return {"README.md": sheet(names), "unity.md": unity.overview(), **found}


def sheet(names: list[str]) -> str:
    """Returns the page of all environments: a picture, a sentence and the actions of each."""
    shown = [name for name in names if "alias" not in sentences()[name]]
    lines = ["| | | |", "|---|---|---|"]
    for at in range(0, len(shown), COLUMNS):
        row = shown[at : at + COLUMNS]
        lines.append(cells([f"[{picture(name)}]({name}.md)" for name in row]))
        lines.append(cells([described(name) for name in row]))
    head = SHEET.format(count=len(names), curves=sum(bool(curves.read(name)) for name in shown))
    return head + "\n".join(lines) + "\n" + AFTER


def picture(name: str) -> str:
    """Returns the moving picture of an environment."""
    return f"![{name}: {declared(name).traits.summary}](../images/gallery/{name}.webp)"


def cells(texts: list[str]) -> str:
    """Returns a row of the sheet."""
    return f"| {' | '.join([*texts, *[''] * (COLUMNS - len(texts))])} |"


def described(name: str) -> str:
    """Returns an environment's cell of the sheet."""
    facts = declared(name)
    actions = ", ".join(dict.fromkeys(actions_of(spec.action) for spec in facts.behaviors.values()))
    return f"**[{name}]({name}.md)** {facts.traits.summary} *Actions: {actions}.*"


def alias(name: str) -> str:
    """Returns the page of a second name."""
    of = sentences()[name]["alias"]
    lines = [f"# {name}", "", f"A second name of [{of}]({of}.md): everything on that page holds for this name too."]
    lines += ["", picture(of), ""]
    lines += ["```bash", f"palaestra {' '.join(curves.command(name))} --run-id={name}", "```", ""]
    lines += [f"Next: [{of}]({of}.md), [the gallery](README.md)", ""]
    return "\n".join(lines)


def page(name: str) -> str:
    """Returns the page of one environment."""
    facts, said = declared(name), sentences()[name]
    last = "and how close it is to Unity's example" if name in agreements() else "and where its rules come from"
    shown = " a learning curve," if curves.read(name) else ""
    lines = [f"# {name}", "", *wrapped(f"{facts.traits.summary} {CONTENTS.format(shown, last)}")]
    lines += ["", picture(name), "", f"*{FILMS[name].words()}*", ""]
    lines += [*wrapped(said["about"]), "", *what(facts)]
    lines += observations(facts, said) + actions(facts, said) + rewards(facts) + parameters(facts)
    more = f"{said['more']}\n".split("\n")[:-1] if "more" in said else []
    lines += training(name) + curve(name, said) + more + unity.section(name)
    return "\n".join([*lines, following(name), ""])


def wrapped(text: str) -> list[str]:
    """Returns a paragraph in lines."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def what(facts: Declared) -> list[str]:
    """Returns the table of plain facts."""
    several = len(facts.behaviors) > 1
    lines = ["| fact | value |", "|---|---|"]
    lines += [f"| behavior{'s' if several else ''} (agents that share one policy) | {', '.join(facts.behaviors)} |"]
    lines += [f"| agents in each area (one copy of the environment) | {facts.agents} |"]
    lines += [f"| areas (copies of the environment), if `--num-areas` is not given | {facts.areas} |"]
    if facts.seconds:
        lines += [f"| simulated time of one decision | {facts.seconds:.3g} s |"]
    lines += [f"| episode | {facts.traits.episode} |"]
    if facts.traits.benchmark is not None:
        lines += [f"| bar: mean reward of an episode that counts as solved | {facts.traits.benchmark:g} |"]
    return [*lines, ""]


def observations(facts: Declared, said: Mapping[str, Any]) -> list[str]:
    """Returns the section of observations; behaviors that observe the same share their rows."""
    lines = ["## Observations", "", "| behavior | observation | kind | what it holds |", "|---|---|---|---|"]
    shared: dict[tuple[ObsSpec, ...], list[str]] = {}
    for behavior, spec in facts.behaviors.items():
        shared.setdefault(tuple(spec.obs), []).append(behavior)
    rows = [(behaviors, obs) for specs, behaviors in shared.items() for obs in specs]
    for (behaviors, obs), words in zip(rows, said["observations"], strict=True):
        fans = facts.traits.ray_fans.get(behaviors[0], ())
        rays = next((fan for fan in fans if fan.obs == obs.name), None)
        holds = words or rays_in(rays, obs.name)
        lines.append(f"| {', '.join(behaviors)} | `{obs.name}` | {kind_of(obs)} | {holds} |")
    return [*lines, ""]


def kind_of(obs: ObsSpec) -> str:
    """Returns the kind and the shape of an observation."""
    kind = "vector" if obs.is_vector else "image" if obs.is_visual else "variable length"
    return f"{kind} {' x '.join(map(str, obs.shape))}{', a goal signal' if obs.goal else ''}"


def rays_in(fan: RayFan | None, name: str) -> str:
    """Returns what rays tell, with the number of frames that their sensor's name has."""
    if fan is None:
        raise SystemExit(f"nothing says what {name} holds: write it into docs/make_gallery.yaml")
    frames = name.removeprefix("StackingSensor_size").partition("_")[0]
    last = f", in the last {frames} frames" if frames.isdigit() else ""
    return f"{len(fan.angles)} rays of {fan.length:g} m that tell {', '.join(fan.tags)} apart{last}"


def actions(facts: Declared, said: Mapping[str, Any]) -> list[str]:
    """Returns the section of actions: the same for all behaviors."""
    (spec,) = {actions_of(one.action): one.action for one in facts.behaviors.values()}.values()
    kinds = [f"discrete, {size} choices" for size in spec.branches]
    words = said["actions"]
    if spec.continuous:
        whole = len(words) - len(kinds)
        kinds = ["continuous, -1 to 1" if whole > 1 else f"{spec.continuous} continuous, -1 to 1"] * whole + kinds
    lines = ["## Actions", "", "| action | what it does |", "|---|---|"]
    return [*lines, *(f"| {kind} | {one} |" for kind, one in zip(kinds, words, strict=True)), ""]


def actions_of(spec: ActionSpec) -> str:
    """Returns the size of an action as `palaestra envs` prints it."""
    continuous = [f"{spec.continuous} continuous"] if spec.continuous else []
    discrete = [f"discrete {' x '.join(map(str, spec.branches))}"] if spec.branches else []
    return " + ".join(continuous + discrete)


def rewards(facts: Declared) -> list[str]:
    """Returns the section of rewards."""
    return ["## Rewards", "", *(f"- {reward}" for reward in facts.traits.rewards), ""]


def parameters(facts: Declared) -> list[str]:
    """Returns the section of parameters and options, if there are any."""
    lines: list[str] = []
    if facts.parameters:
        lines = [
            "## Parameters",
            "",
            *wrapped(
                "`environment_parameters` of a settings file sets these numbers, draws them at random, or changes them "
                "in a [curriculum](../guides/training/curriculum.md)."
            ),
            "",
            "| parameter | default | least | most |",
            "|---|---|---|---|",
        ]
        ranges = facts.traits.parameter_ranges
        for name, default in facts.parameters.items():
            least, most = (f"{bound:g}" for bound in ranges[name][1:]) if name in ranges else ("-", "-")
            lines.append(f"| `{name}` | {default:g} | {least} | {most} |")
        lines.append("")
    if facts.options:
        lines += [
            "These options are set by `--set env_settings.env_options.NAME=VALUE`:",
            "",
            "| option | default |",
            "|---|---|",
        ]
        lines += [f"| `{name}` | {str(default).lower()} |" for name, default in facts.options] + [""]
    return lines


def training(name: str) -> list[str]:
    """Returns the section with the commands, and the settings files that are shipped."""
    first = curves.preset_for(name)
    given = f"configs/{first.parent.name}/{first.name} " if first else ""
    rated = self_plays(name)
    second = f"league {name}" if rated else f"evaluate {name} --episodes 100"
    does = "lets the run's snapshots play one another and rates them" if rated else "prints the mean of 100 episodes"
    lines = ["## Train, evaluate, record", "", "```bash"]
    lines += [f"palaestra learn {given}--env={name} --run-id={name}", f"palaestra {second}"]
    lines += [f"palaestra record {name} --areas 4", "```", ""]
    lines += wrapped(
        "The first command trains for as many decisions as its settings file asks for, into the folder "
        f"`results/{name}`. The second command {does}. The third command writes `recording.gif` into that folder; "
        "it shows four areas (copies of the environment)."
    )
    found = sorted(
        (file for group in GROUPS for file in (ROOT / "configs" / group).glob("*.yaml") if is_for(file, name)),
        key=lambda file: (file != first, "_" in file.stem, GROUPS.index(file.parent.name)),
    )
    if not found:
        none = "No settings file is shipped for this environment: the run says which settings it chose."
        return [*lines, "", none, ""]
    told = "These settings files are shipped for this environment."
    lines += ["", f"{told} A comment at the top of most files gives the measured results:", ""]
    lines += ["| file | algorithm | decisions |", "|---|---|---|"]
    return [*lines, *map(settings_row, found), ""]


def self_plays(name: str) -> bool:
    """Whether an environment is learned by self-play with the settings that are shipped for it."""
    file = curves.preset_for(name)
    behaviors = load(file, own_code=False).settings.behaviors if file else {}
    return any(block.self_play is not None for block in behaviors.values())


def settings_row(file: Path) -> str:
    """Returns the row of a settings file."""
    blocks = load(file, own_code=False).settings.behaviors
    kinds = ", ".join(dict.fromkeys(block.trainer_type for block in blocks.values()))
    steps = ", ".join(dict.fromkeys(f"{block.max_steps:,}" for block in blocks.values()))
    place = f"{file.parent.name}/{file.name}"
    return f"| [{place}](../../configs/{place}) | {kinds} | {steps} |"


def is_for(file: Path, name: str) -> bool:
    """Whether a settings file is named for an environment, or for its second name."""
    names = [name, *(other for other, said in sentences().items() if said.get("alias") == name)]
    return any(file.stem == one or file.stem.startswith(f"{one}_") for one in names) or file.stem == f"{name}RND"


def curve(name: str, said: Mapping[str, Any]) -> list[str]:
    """Returns the section of the learning curve."""
    seeds = {one.seed for one in curves.read(name)}
    lines = ["## Learning curve", ""]
    train = curves.commands(name)
    if not seeds:
        none = "This page has no learning curve yet."
        again = f"python docs/make_gallery.py --train {name}"
        lines += [
            *wrapped(f"{none} The first command trains three seeds; the second makes the curve of this page:"),
            "",
        ]
        return [*lines, "```bash", *train, again, "```", ""]
    shown, ended = curves.words(name)
    lines += [f"![Learning curve of {name}: {shown}](../images/gallery/{name}-curve.png)", ""]
    for text in (shown, ended, said.get("curve", ""), curves.MADE):
        lines += [*wrapped(text), ""] if text else []
    data = f"[docs/curves/gallery/{name}.csv](../curves/gallery/{name}.csv)"
    metric = " --metric Self-play/ELO" if self_plays(name) else ""
    plot = f"palaestra plot '{name}-seed-*'{metric} --out {name}.png"
    lines += [*wrapped(f"The numbers are in {data}. These commands train the same seeds and draw them:"), ""]
    return [*lines, "```bash", *train, plot, "```", ""]


def following(name: str) -> str:
    """Returns the last line of a page."""
    guide = "[several seeds and comparing settings](../guides/training/compare.md)"
    if self_plays(name):
        guide = "[self-play](../guides/training/self-play.md)"
    return f"Next: [the gallery](README.md), [all environments compared with Unity's](unity.md), {guide}"


def main() -> None:
    """Trains and films what is asked for, draws curves and writes the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", choices=list(FILMS), default=[], metavar="NAME", help="train for curves")
    parser.add_argument("--seeds", nargs="+", type=int, default=curves.SEEDS, help="seeds of --train; default: 1 2 3")
    parser.add_argument("--film", nargs="+", choices=list(FILMS), default=[], metavar="NAME", help="film these")
    parser.add_argument("--model", type=Path, help="model file that plays in the film")
    parser.add_argument("--results-dir", type=Path, default=ROOT / "results", help="folder of runs; default: results")
    options = parser.parse_args()
    curves.train(options.train, options.seeds, options.results_dir)
    for name in options.film:
        film(name, options.results_dir, options.model)
    for name in sentences():
        curves.draw_if_changed(name, bar_of(name))
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")


def bar_of(name: str) -> float | None:
    """Returns the reward that counts as solved, where the curve's rewards compare with it."""
    return None if sentences()[name].get("bar") is False else declared(name).traits.benchmark


if __name__ == "__main__":
    main()
