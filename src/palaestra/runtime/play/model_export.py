"""Writes a run's policies as ONNX models, for `palaestra.export` and the command `export`."""

from __future__ import annotations

import html
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError, ExportError, RunInUse
from palaestra.core.files import file_name, must_be_new
from palaestra.core.plugins import nearest
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.logging.waiting import on_stderr
from palaestra.runtime.play.run_models import run_folder
from palaestra.runtime.presentation.shown import Shown
from palaestra.runtime.settings import load
from palaestra.runtime.storage.networks import load_networks
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.runtime.storage.trust import must_stay_inside
from palaestra.runtime.storage.writer_lock import sole_writer


@dataclass(frozen=True, slots=True, repr=False)
class Export(Shown):
    """Model files that were written."""

    files: dict[str, Path]
    """The file of each behavior."""
    differences: dict[str, float]
    """Largest difference of each file from its network, on 1,000 random observations."""

    def __str__(self) -> str:
        return "\n".join(
            escaped(
                f"Wrote {file} (differs from the network by at most {self.differences[name]:.1e} on 1,000 random "
                "observations)"
            )
            for name, file in self.files.items()
        )

    def _line(self) -> str:
        return ", ".join(map(str, self.files.values()))

    def _inline(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def export_models(
    run: str,
    results: Path,
    *,
    behavior: str | None = None,
    out: Path | None = None,
    force: bool = False,
    step: int | None = None,
    trust: bool = False,
    policy_inputs: bool = False,
) -> Export:
    """Writes the models of a run, or the model of one behavior to `out`, and compares them with their networks. Raises
    PalaestraError.

    Models for Unity games also have inputs for the critic's additional observations, unless `policy_inputs` is set.
    """
    if out is not None and (out.suffix.lower() != ".onnx" or out.is_dir()):
        raise ConfigError(f"--out {out}: expected the name of a file that ends in .onnx")
    if out is not None:
        must_be_new(out, force=force)
    folder = run_folder(run, results).path
    if out is None:
        must_stay_inside(folder, trust)
    networks = load_networks(folder, step, trust)
    env = load(folder / CONFIGURATION, own_code=False).settings.env_settings.env_path
    for_unity = (env is None or is_game(env)) and not policy_inputs
    there = ", ".join(networks)
    if behavior and behavior not in networks:
        raise ExportError(
            f"run '{folder.name}' has no behavior '{behavior}'{nearest(behavior, networks)} (it has: {there})"
        )
    chosen = [behavior] if behavior else list(networks)
    if out and len(chosen) > 1:
        raise ExportError(
            f"--out names one file, and run '{folder.name}' has several behaviors ({there}): choose one with --behavior"
        )
    files: dict[str, Path] = {}
    differences: dict[str, float] = {}
    try:
        with nullcontext() if out else sole_writer(folder, lambda warning: on_stderr(f"warning: {warning}")):
            for name in chosen:
                network, spec = networks[name]
                files[name] = out or folder / f"{file_name(name)}.onnx"
                export(network, spec, files[name], for_unity=for_unity)
                differences[name] = compare(network, spec, files[name])
    except RunInUse as error:
        raise RunInUse(f"{error}; --out=FILE.onnx writes the model to another place meanwhile") from None
    return Export(files, differences)
