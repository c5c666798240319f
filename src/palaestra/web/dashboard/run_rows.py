"""Rows of the table of runs, and the look of its cells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.core.display import escaped, readable
from palaestra.runtime.monitor.run_status import BehaviorStatus, RunStatus
from palaestra.runtime.showing.run_notes import RunNotes
from palaestra.web.layout import table_column

COLORS = {
    "learning": "primary",
    "finished": "positive",
    "stopped": "blue-grey-7",
    "died": "negative",
    "recorded": "blue-grey-7",
}
"""Color of each state."""
MEANINGS = {
    "learning": "a process trains it now",
    "finished": "it has reached its max_steps",
    "stopped": "it was saved and ended before its max_steps; Resume, or --resume, continues it",
    "died": "its process ended without a final state; Resume, or --resume, continues the run from its last checkpoint",
    "recorded": "files of another program, which do not say whether it has ended",
}


COLUMNS = [
    table_column("id", "Run", "left"),
    table_column("tags", "Tags", "left"),
    table_column("state", "State", "left"),
    table_column("share", "Progress", "left"),
    table_column("reward", "Reward"),
    table_column("rate", "Steps / s"),
    table_column("left", "Time left"),
    table_column("environment", "Environment", "left"),
    table_column("trainer", "Trainer", "left"),
    table_column("started", "Begun"),
]

SLOTS = {
    # text within {{ }} and attributes bound with : are shown as text, whatever they hold
    "body-cell-id": """<q-td :props="props" class="p-name"><div class="row items-center no-wrap">
        <q-btn flat dense round size="sm" :aria-label="(props.row.hidden ? 'Show ' : 'Hide ') + props.value"
          :icon="props.row.hidden ? 'visibility_off' : 'visibility'" @click="$parent.$emit('hide', props.row.key)"
          ><q-tooltip>In the chart or not</q-tooltip></q-btn>
        <q-btn flat dense round size="sm" :aria-label="(props.row.pinned ? 'Unpin ' : 'Pin ') + props.value"
          :color="props.row.pinned ? 'primary' : undefined" :icon="props.row.pinned ? 'push_pin' : 'o_push_pin'"
          @click="$parent.$emit('pin', props.row.key)"><q-tooltip>On top, and in the chart</q-tooltip></q-btn>
        <span class="p-dot" :style="{ background: props.row.dot }"></span>
        <a class="p-run" :title="props.row.note || props.value"
        :href="'/run?id=' + encodeURIComponent(props.row.key)">{{ props.value }}</a></div></q-td>""",
    "body-cell-tags": """<q-td :props="props"><q-badge v-for="tag in props.row.tag_list" :key="tag" outline
        color="primary" class="q-mr-xs" :label="tag" /></q-td>""",
    "body-cell-state": """<q-td :props="props"><q-badge :color="props.row.color" :label="props.value" class="p-state">
        <q-tooltip>{{ props.row.meaning }}</q-tooltip></q-badge></q-td>""",
    "body-cell-share": """<q-td :props="props" class="p-progress"><q-linear-progress v-if="props.value !== null"
      :value="props.value"
        aria-label="Progress" :color="props.row.color" size="6px" rounded instant-feedback />
        <div class="p-quiet text-xs">{{ props.row.steps }}</div></q-td>""",
    **{
        f"body-cell-{name}": f'<q-td :props="props" :title="props.row.{name}_text">{{{{ props.row.{name}_text '
        "}}</q-td>"
        for name in ("rate", "left", "started")
    },
    "body-cell-reward": """<q-td :props="props" :title="props.row.reward_meaning">{{ props.row.reward_text }}
        <div class="p-quiet text-xs">{{ props.row.reward_of }}</div></q-td>""",
    **{
        f"body-cell-{name}": f'<q-td :props="props"><div class="p-cut" :title="props.row.{name}">{{{{ '
        f"props.row.{name} }}}}</div></q-td>"
        for name in ("environment", "trainer")
    },
    "item": """<div class="w-full p-1"><div class="p-run-card">
        <div class="row items-center no-wrap"><q-checkbox dense v-model="props.selected" class="q-mr-sm"
        :aria-label="'Choose ' + props.row.id" />
        <a class="p-run col" :href="'/run?id=' + encodeURIComponent(props.row.key)">{{ props.row.id }}</a>
        <q-badge :color="props.row.color" :label="props.row.state" class="p-state" /></div>
        <q-linear-progress v-if="props.row.share !== null" :value="props.row.share" aria-label="Progress"
        :color="props.row.color" size="6px" rounded
        instant-feedback class="q-my-xs" />
        <div class="row p-quiet text-xs"><span class="col">{{ props.row.steps }}</span>
        <span>{{ [props.row.rate_text && props.row.rate_text + ' steps/s',
          props.row.left_text && props.row.left_text + ' left']
        .filter(Boolean).join(', ') }}</span></div>
        <div class="row text-xs"><span class="col">{{ [props.row.environment,
          props.row.trainer].filter(Boolean).join(', ') }}</span>
        <span v-if="props.row.reward_text" :title="props.row.reward_meaning">reward {{ props.row.reward_text }}</span>
        </div></div></div>""",
}
"""Templates of table cells; `item` is a run's card on a narrow screen."""


def short_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns settings as texts by their dotted keys; for a single behavior the keys leave out its name."""
    behaviors = settings.get("behaviors")
    only = next(iter(behaviors)) if isinstance(behaviors, Mapping) and len(behaviors) == 1 else None
    return {
        ".".join(path[2:] if path[:2] == ("behaviors", only) else path): escaped(str(value))
        for path, value in _leaves(settings)
        if path[0] != "checkpoint_settings"
    }


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        path = (*above, str(key))
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        elif value is not None:
            yield path, value


def row_of(status: RunStatus, notes: RunNotes, now: float | None = None) -> dict[str, Any]:
    """Returns a run's row: its sort keys and its shown texts."""
    return {
        "tags": " ".join(notes.tags),
        "tag_list": [escaped(tag) for tag in notes.tags],
        "note": escaped(notes.note),
        "key": status.run_id,
        "id": escaped(status.run_id),
        "state": status.state,
        "color": COLORS[status.state],
        "meaning": escaped(meaning_of(status)),
        "share": status.share,
        "steps": steps(status),
        "rate": status.rate,
        "rate_text": "" if status.rate is None else f"{status.rate:,.0f}",
        "left": status.left,
        "left_text": "" if status.left is None else duration(status.left),
        "reward": status.reward,
        "reward_text": "" if status.reward is None else readable(status.reward),
        "reward_of": "" if status.rewarded is None else of_episodes(status.rewarded),
        "reward_meaning": "mean reward in the last summary",
        "environment": escaped(status.environment),
        "trainer": escaped(status.trainer or status.source),
        "started": status.started or status.changed or None,
        "started_text": when(status.started or status.changed or None, now),
    }


def headline(status: RunStatus, *, facts: bool = True) -> str:
    """Returns the numbers of a run as one line; `facts`: also its environment, trainer and begin."""
    parts = [steps(status)]
    if status.rate is not None:
        parts.append(f"{status.rate:,.0f} steps/s")
    if status.left is not None:
        parts.append(f"{duration(status.left)} left")
    several = len(status.behaviors) > 1
    parts += [
        f"mean reward {readable(each.reward)}"
        + (f" of {of}" if (of := of_episodes(each)) else "")
        + (f" ({escaped(each.name)})" if several else "")
        for each in status.behaviors
        if each.reward is not None
    ]
    if not facts:
        return "  ·  ".join(parts)
    parts += [escaped(text) for text in (status.environment, status.trainer) if text]
    if status.source != "Palaestra":
        parts.append(f"written by {status.source}")
    if status.started is not None:
        parts.append(f"begun {when(status.started)}")
    return "  ·  ".join(parts)


def meaning_of(status: RunStatus) -> str:
    """Returns an explanation of a run's state, and the reason of a failure."""
    if status.state == "died" and status.failure:
        return f"it ended with an error: {status.failure}"
    writer = f" ({status.writer})" if status.writer and status.state == "learning" else ""
    return f"{MEANINGS[status.state]}{writer}"


def of_episodes(behavior: BehaviorStatus) -> str:
    """Returns the number of episodes in a behavior's mean reward; empty if unknown."""
    if behavior.episodes is None:
        return ""
    return "1 episode" if behavior.episodes == 1 else f"{short(behavior.episodes)} episodes"


def steps(status: RunStatus) -> str:
    """Returns the finished steps and the planned ones."""
    of = f" of {short(status.max_steps)}" if status.max_steps else ""
    return f"{short(status.step)}{of} steps"


def short(count: float) -> str:
    """Returns a large number with three digits: 1500000 is 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"


def duration(seconds: float) -> str:
    """Returns a time such as 1:02:03 or 2 d 3 h."""
    whole = int(seconds)
    if whole >= 86400:
        return f"{whole // 86400} d {whole // 3600 % 24} h"
    hours = whole // 3600
    minutes = whole // 60
    return f"{hours}:{minutes % 60:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def when(moment: float | None, now: float | None = None) -> str:
    """Returns a time as text: the time of day if it is today, else the date."""
    if moment is None:
        return ""
    now = time.time() if now is None else now
    try:
        there = time.localtime(moment)
        here = time.localtime(now)
        same = there[:3] == here[:3]
        return time.strftime("%H:%M" if same else "%d %b" if there[0] == here[0] else "%b %Y", there)
    except (ValueError, OverflowError, OSError):
        return ""
