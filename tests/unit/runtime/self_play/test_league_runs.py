"""`palaestra league` and `export` on damaged and forged run folders: a plain error, and no memory for what a few digits
ask for.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from duel_env import Duel
from safetensors.torch import load_file, save_file
from small_runs import settings

import palaestra
from palaestra.cli.main import main
from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.storage.checkpoints import _seal
from palaestra.runtime.storage.networks import must_fit

LEAGUE = ["league", "results/first", "--games=1"]
EXPORT = ["export", "results/first"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("written")
    self_play = {"save_steps": 100, "swap_steps": 50}
    given = settings("Duel", 300, self_play=self_play)
    palaestra.train(given, env="python:duel_env:Duel", results_dir=str(results), run_id="first", quiet=True)
    return results


@pytest.fixture
def run(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(written, "results")
    return tmp_path / "results" / "first"


def forge(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what the newest checkpoint says of the run, seals it anew, and removes the others."""
    newest, *others = sorted((run / "checkpoints").glob("[0-9]*"), key=lambda path: -int(path.name))
    for other in others:
        shutil.rmtree(other)
    body = json.loads((newest / "manifest.json").read_text())
    del body["sha256"]
    change(body["parts"]["run"]["content"])
    (newest / "manifest.json").write_text(json.dumps({**body, "sha256": _seal(body)}))


def test_a_league_of_a_run_that_fits_is_played(run):
    assert main(LEAGUE) == 0
    assert (run / "league.json").is_file()


class Interrupted(Duel):
    """Ctrl-C is pressed in it after some games."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        if len(self.given) == 5:
            raise KeyboardInterrupt
        return super().step(actions)


def test_an_interrupted_league_shows_what_was_played_and_keeps_the_files_of_the_one_before(run, capsys):
    (run / "league.json").write_text("before")
    assert main([*LEAGUE, "--games=90", f"--env=python:{__name__}:Interrupted", "--num-areas=2", "--trust"]) == 130
    out, err = capsys.readouterr()
    assert "games are played, 90 of each pairing (--games)" in err
    assert "interrupted after 10 games: the table counts these" in err
    assert "Duel, score in percent" in out
    assert (run / "league.json").read_text() == "before"


@pytest.mark.parametrize("command", [LEAGUE, EXPORT])
@pytest.mark.parametrize("size", [2**31, 2**40])
def test_a_spec_in_a_manifest_takes_no_memory(command, size, run, capsys):
    forge(run, lambda content: content["specs"]["Duel"]["obs"]["$tuple"][0].update(shape={"$tuple": [size]}))
    assert main(command) == 1
    message = capsys.readouterr().err
    assert "the network has " in message
    assert " are saved" in message


@pytest.mark.parametrize("command", [LEAGUE, EXPORT])
def test_settings_that_the_weights_do_not_have_take_no_memory(command, run, capsys):
    file = run / "configuration.yaml"
    text = file.read_text().replace("hidden_units: 16", "hidden_units: 65536")
    file.write_text(text.replace("num_layers: 1", "num_layers: 9"))
    assert main([*command, "--trust"]) == 1
    assert "the network has " in capsys.readouterr().err


def test_a_checkpoint_of_an_early_version_is_told(run, capsys):
    forge(run, lambda content: content.pop("specs"))
    assert main(LEAGUE) == 1
    assert "was written by an earlier version" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["renamed", "shape", "empty"])
def test_snapshots_that_do_not_fit_are_an_error(damage, run, capsys):
    file = next((run / "Duel" / "snapshots").glob("*.safetensors"))
    weights = load_file(file)
    first = next(iter(weights))
    changed = {
        "renamed": {"x": weights.pop(first), **weights},
        "shape": {first: torch.zeros(1, 1, 50), **weights},
        "empty": {},
    }[damage]
    file.unlink()
    save_file(changed, file)
    assert main(LEAGUE) == 1
    assert (
        f"the snapshots of 'Duel' in {run.relative_to(Path.cwd())} do not fit its settings and its checkpoint"
        in capsys.readouterr().err
    )


def test_weights_that_are_named_several_times_count_once():
    one = torch.zeros(10)
    with pytest.raises(RuntimeError, match="the network has 30 numbers, and 10 are saved"):
        must_fit(lambda: torch.nn.Linear(5, 5), {f"{i}": one for i in range(9)})
