"""Runs models with onnxruntime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import numpy as np

from palaestra.core.errors import PolicyError
from palaestra.core.files import MODEL_FILES, file_kind
from palaestra.core.system_memory import free_memory

Arrays = dict[str, np.ndarray]
# of the function that failed, with its file
_SIGNATURE = re.compile(r"^.*(onnxruntime/core/\S+:\d+ .*\))(?= [A-Z])", re.DOTALL)
_NEWER = re.compile(r"IR version|opset")

LEAST_MEMORY = 1 << 30
"""Least bytes of memory that models may take; on a machine with much free memory, they may take a quarter of it."""
SILENT = 4  # onnxruntime's own lines on stderr; what matters reaches the user as an exception


class Session:
    """Model opened on one CPU core: a policy is small, so a thread pool would slow it down.

    onnxruntime seeds its random nodes from one process-wide number when a session is made. The seed is set just before
    the session opens; if `seed` is None, it differs from session to session. `name` is for messages. Raises PolicyError
    for an invalid ONNX model.
    """

    def __init__(self, model: str | bytes, name: str, seed: int | None) -> None:
        import onnxruntime  # a training that plays no model does without it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = SILENT
        bound_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
        onnxruntime.set_seed(int(np.random.default_rng(seed).integers(2**31)))
        self.name = name
        try:
            opened = partial(
                onnxruntime.InferenceSession,
                sess_options=options,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,
            )
            try:
                self._session = opened(model)
            except errors() as error:
                if "does not exist in the graph" not in str(error) or isinstance(model, bytes):
                    raise
                self._session = opened(_without_missing_outputs(model))
            self._read()
        except UnicodeDecodeError as error:
            raise PolicyError(
                f"{name} is damaged: names in it are no text; copy the file again from its source"
            ) from error
        except errors() as error:
            reason = _reason(error)
            if type(error).__name__ == "InvalidProtobuf" or "No graph" in reason:
                kind = "" if isinstance(model, bytes) else file_kind(Path(model), *MODEL_FILES)
                came = (
                    f": it is {kind}"
                    if kind
                    else " (or only a part of one); expected a model such as results/ID/NAME.onnx"
                )
                raise PolicyError(f"{name} is not an ONNX file{came}") from error
            newer = "; upgrade onnxruntime, or export the model for an older version" if _NEWER.search(reason) else ""
            raise PolicyError(
                f"{name} cannot be played: onnxruntime {onnxruntime.__version__} refuses it: {reason}{newer}"
            ) from error

    def _read(self) -> None:
        self.inputs: dict[str, list[int | str]] = {tensor.name: tensor.shape for tensor in self._session.get_inputs()}
        self.input_types: dict[str, str] = {tensor.name: tensor.type for tensor in self._session.get_inputs()}
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.outputs: dict[str, str] = {tensor.name: tensor.type for tensor in self._session.get_outputs()}

    def run(self, names: list[str], feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the outputs of these names. Raises PolicyError if the graph cannot take the inputs."""
        try:
            return dict(zip(names, map(np.asarray, self._session.run(names, dict(feeds))), strict=True))
        except (*errors(), ValueError) as error:  # a ValueError: an input is missing, or a message that is no text
            shapes = {key: value.shape for key, value in feeds.items()}
            raise PolicyError(f"{self.name} cannot be run on {shapes}: {_reason(error)}") from error


def _without_missing_outputs(path: str) -> bytes:
    """Returns the model without the outputs that no node computes; a test model of Unity's package 3 has one."""
    import onnx

    model = onnx.load(path)
    made = {name for node in model.graph.node for name in node.output} | {
        tensor.name for tensor in model.graph.initializer
    }
    made |= {tensor.name for tensor in model.graph.input}
    kept = [output for output in model.graph.output if output.name in made]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    return model.SerializeToString()


@cache
def bound_memory() -> None:
    """Limits the memory of all models of this process: a few bytes of a graph can ask for any amount."""
    import onnxruntime as ort

    most = max(LEAST_MEMORY, free_memory() // 4)
    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    with suppress(*errors(), RuntimeError):  # another library of this process has set a limit
        ort.create_and_register_allocator(place, ort.OrtArenaCfg(most, -1, -1, -1))


@cache
def errors() -> tuple[type[Exception], ...]:
    """Returns the exception classes of onnxruntime, which have no common base class."""
    states = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return tuple(kind for kind in vars(states).values() if isinstance(kind, type) and issubclass(kind, Exception))


def _reason(error: Exception) -> str:
    return _SIGNATURE.sub("", str(error)).rsplit("()", 1)[-1].rsplit(" : ", 1)[-1].strip()
