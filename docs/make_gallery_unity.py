"""Writes how far built-in environments are Unity's examples, from `envs/builtin/agreement.yaml`: the section of each
gallery page, and the page of all together.
"""

from __future__ import annotations

from palaestra.cli.agreement import reached, stated
from palaestra.core.plugins import registry
from palaestra.envs.builtin.agreement import Agreement, agreements
from palaestra.envs.builtin.sensors.truth import numbers_of

OVERVIEW = """\
# Compared with Unity's examples

Most built-in environments have the name of one of Unity's examples, with its observations, actions and rewards. The
physics are near enough that Unity's own model earns what Unity states in {enough} of the {stated} environments in which
such a model was played and Unity states a figure. In the other {short} ([below](#unitys-models-play-here)) the model
earns less, so do not expect a model that was trained in one to play well in the other. This page shows for all
environments together what Unity's own models earn here, and what was learned here with the settings files of ML-Agents.
The page of each environment in [the gallery](README.md) lists what is the same and what differs.

The first command prints the first table from the recorded figures, and measures nothing. The second prints what this
site says of one environment. The third plays a model and prints the mean of its episodes, with sampled actions; the
model files are in ML-Agents' repository, among the assets of each example:

```bash
palaestra envs --unity
palaestra envs 3DBall --unity
palaestra evaluate Crawler.onnx --env=Crawler --episodes=200
```

The figures were recorded in November 2026; day and machine of each were not noted. The environments changed during that
month, so a new measurement can differ from a figure here.

## Unity's models play here

Unity trained each model in its own example. Here it plays with sampled actions, as in Unity. If a model earns here what
Unity states, the environment is close enough to Unity's. Figures are means with their standard errors; a dash means
that Unity states no figure.

"""
SHORT = """
Unity's own models earn less than 95 % of what Unity states in {}.
The bodies of these environments (in Visual3DBall the pictures) still differ from Unity's. A training that reaches
Unity's figure in one of them has solved Palaestra's environment, not Unity's; the second table says *solved here*.

## Unity's settings learn here

The table shows trainings with the settings files that ML-Agents has for its examples, unchanged. *Reward* is the mean
reward of an episode in training, unless the note says something else. *Decisions* are in millions, until the run was
stopped; *planned* is what the settings file asks for, in millions. *Solved* is a run that earned at least 95 % of what
Unity states. *Not finished* is a run that was stopped early and had earned less. *Solved here* is a solved run in an
environment in which Unity's own model earns less than Unity states.

"""
KNOWING = """
## The true state

{}
can also tell what their agents do not see. With `env_options: {{state: true}}` each agent has one more observation,
`truth`, for [a critic that sees more than the agents](../guides/training/critic-only.md). The page of each environment
lists its numbers; all lie roughly within -1 to 1.

Next: [the gallery](README.md), [the reasons behind the physics](../decisions/unity-physics.md)
"""


def overview() -> str:
    """Returns the page of all environments together."""
    found = agreements()
    models = ["| environment | Unity's model | earns here | Unity states |", "|---|---|---|---|"]
    for name, agreement in found.items():
        models += [f"| {link(name)} | {' | '.join(row)} |" for row in model_rows(agreement)]
    head = "| environment | ML-Agents' settings | reward | decisions | planned | seeds | status | Unity states | note |"
    runs = [head, "|---" * 9 + "|"]
    for name, agreement in found.items():
        runs += [f"| {link(name)} | {' | '.join(row)} |" for row in run_rows(agreement)]
    short = listed([link(name) for name, agreement in found.items() if agreement.falls_short])
    knowing = listed([link(name) for name in found if parts_of_truth(name)])
    played = [name for name, one in found.items() if any(score.stated for score in one.models) and not is_alias(name)]
    fewer = [name for name in played if found[name].falls_short]
    head = OVERVIEW.format(enough=len(played) - len(fewer), stated=len(played), short=len(fewer))
    return head + "\n".join(models) + "\n" + SHORT.format(short) + "\n".join(runs) + "\n" + KNOWING.format(knowing)


def section(name: str) -> list[str]:
    """Returns the lines of one environment: its models, its runs, what is the same, and what differs."""
    agreement = agreements().get(name)
    lines = ["## Compared with Unity's example", ""]
    if agreement is None:
        return [*lines, f"{name} is none of Unity's examples.", "", *truth(name)]
    if agreement.models:
        lines += ["| Unity's model | earns here | Unity states |", "|---|---|---|"]
        lines += [*(f"| {' | '.join(row)} |" for row in model_rows(agreement)), ""]
        lines += [
            "Unity trained the model in its own example; the model plays here with sampled actions, as in Unity.",
            "",
        ]
        if agreement.falls_short:
            short = "The model earns less than 95 % of what Unity states: this environment still differs from Unity's."
            lines += [f"> **Note:** {short}", ""]
    else:
        lines += ["No model of Unity's was played here.", ""]
    if agreement.learned:
        lines += ["The table shows trainings in Palaestra's environment with ML-Agents' own settings files, unchanged."]
        lines += ["*Decisions* and *planned*, what the settings file asks for, are in millions:", ""]
        lines += ["| ML-Agents' settings | reward | decisions | planned | seeds | status | Unity states | note |"]
        lines += ["|---" * 8 + "|", *(f"| {' | '.join(row)} |" for row in run_rows(agreement)), ""]
    lines += ["These parts are the same as in Unity:", "", *(f"- {fact}" for fact in agreement.same), ""]
    if agreement.approximate:
        lines += ["These parts differ from Unity:", "", *(f"- {fact}" for fact in agreement.approximate), ""]
    return lines + truth(name)


def model_rows(agreement: Agreement) -> list[list[str]]:
    """Returns model, result and Unity's figure of each model."""
    return [[score.model, reached(score), stated(score)] for score in agreement.models]


def run_rows(agreement: Agreement) -> list[list[str]]:
    """Returns settings, reward, decisions, planned decisions, seeds, status, Unity's figure and note of each run."""
    return [
        [
            run.settings,
            f"{run.reward:g}",
            f"{run.decisions:g}",
            f"{run.planned:g}",
            f"{run.seeds}",
            f"{run.status} here" if run.status == "solved" and agreement.falls_short else run.status or "-",
            stated(run),
            "; ".join(filter(None, (run.behavior, run.measure, run.remark))) or "-",
        ]
        for run in agreement.learned
    ]


def is_alias(name: str) -> bool:
    """Whether a name is a second one of an environment with the same models."""
    found = list(agreements().items())
    return any(one.models == agreements()[name].models for other, one in found if one.models and other < name)


def parts_of_truth(name: str) -> tuple[tuple[str, int], ...]:
    """Returns the parts of the observation `truth`, with their numbers; none if the environment has no such option."""
    return tuple(getattr(registry("envs").get(name), "truth", ()))


def truth(name: str) -> list[str]:
    """Returns the table of an environment's observation `truth`, if it has one."""
    parts = parts_of_truth(name)
    if not parts:
        return []
    lines = ["## The true state", "", "With `env_options: {state: true}` each agent has one more observation, `truth`,"]
    lines += [f"of {numbers_of(parts)} numbers, for [a critic that sees more](../guides/training/critic-only.md):", ""]
    lines += ["| numbers | what |", "|---|---|"]
    at = 0
    for words, size in parts:
        lines.append(f"| {at} | {words} |" if size == 1 else f"| {at} to {at + size - 1} | {words} |")
        at += size
    return [*lines, ""]


def link(name: str) -> str:
    """Returns a link to the page of an environment."""
    return f"[{name}]({name}.md)"


def listed(names: list[str]) -> str:
    """Returns names as they are read in a sentence."""
    return f"{', '.join(names[:-1])} and {names[-1]}"
