"""Compare built-in environments with Unity's examples of the same name (`palaestra envs --unity`)."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from palaestra.core.errors import EnvError
from palaestra.core.plugins import registry
from palaestra.envs.builtin.agreement import Agreement, Learned, ModelScore, agreements


def agreement_of(name: str) -> Agreement:
    """Returns the agreement of a built-in environment. Raises EnvError if the environment has no example in Unity,
    PluginError if it is unknown."""
    name = name.removeprefix("builtin:")
    if name in agreements():
        return agreements()[name]
    if ":" not in name:
        registry("envs").get(name)
    raise EnvError(f"{name!r} has no counterpart among Unity's examples; these have one: {', '.join(agreements())}")


def show_agreement(console: Console, name: str) -> None:
    """Prints what a built-in environment has in common with Unity's example, the differences, and the reward of Unity's
    models in it."""
    agreement = agreement_of(name)
    console.print(f"[bold cyan]{escape(name)}[/]  compared with Unity's example\n")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for title, facts in (("the same", agreement.same), ("differs", agreement.approximate)):
        for i, fact in enumerate(facts):
            table.add_row(title if i == 0 else "", escape(fact))
    for i, score in enumerate(agreement.models):
        table.add_row(
            "Unity's models" if i == 0 else "", escape(f"{score.model}: {reached(score)}; Unity states {stated(score)}")
        )
    if not agreement.models:
        table.add_row("Unity's models", "none was played here")
    for i, run in enumerate(agreement.learned):
        table.add_row(
            "Unity's settings" if i == 0 else "", escape(f"{run.settings}: {learned(run)}; Unity states {stated(run)}")
        )
    if not agreement.learned:
        table.add_row("Unity's settings", "no run with them was measured here")
    console.print(table)


def list_agreement(console: Console) -> None:
    """Prints a line for each of Unity's models that was played here, and the names of the other examples."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("Unity's model", no_wrap=True)
    table.add_column("reaches here")
    table.add_column("Unity states", justify="right")
    without: list[str] = []
    for name, agreement in agreements().items():
        for score in agreement.models:
            table.add_row(escape(name), escape(score.model), escape(reached(score)), stated(score))
        if not agreement.models:
            without.append(name)
    console.print(table)
    if without:
        console.print(f"\nWithout a model of Unity's that was played: {escape(', '.join(without))}")
    console.print("\n'palaestra envs NAME --unity' shows what is the same and what differs.")


def reached(score: ModelScore) -> str:
    """Returns a score as text: mean, standard error and number of episodes, as far as they are known."""
    error = "" if score.error is None else f" ± {score.error:g}"
    episodes = "" if score.episodes is None else f", {score.episodes} episodes"
    return f"{score.score:g}{error} ({score.of}{episodes})"


def learned(run: Learned) -> str:
    """Returns a result of training as text: reward, decisions, and number of seeds."""
    of = f" in {run.behavior}" if run.behavior else ""
    planned = "" if run.decisions >= run.planned else f" of {run.planned:g}"
    measure = f" ({run.measure})" if run.measure else ""
    seeds = ("one seed" if run.seeds == 1 else f"{run.seeds} seeds") + (f"; {run.remark}" if run.remark else "")
    return f"{run.reward:g}{measure}{of} after {run.decisions:g}{planned} million decisions ({seeds})"


def stated(score: ModelScore | Learned) -> str:
    """Returns Unity's own figures as text."""
    return "-" if score.stated is None else f"{score.stated:g}"
