"""Names the kind of a file by its first bytes and its name, for messages about a file of another kind than expected."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from palaestra.core.files import regular

_MAGIC = {
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with 'git lfs pull'",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"\x89HDF\r\n": "an HDF5 file",
    b"model_checkpoint_path": "TensorFlow's list of checkpoints",
    b"%YAML 1.1\n%TAG !u!": "an asset of Unity; give the .onnx file that Unity imported",
    b"\x10\0\0\0\0\0\0\0": "a Barracuda model of ML-Agents before release 17; end its name in .nn",
}
_TORCH = "a file of PyTorch; init_path starts from one of ML-Agents, `palaestra convert` makes models of other libraries'"
_TENSORFLOW = "as ML-Agents wrote before release 17, which is not read; play the .nn or .onnx model of the same run, or train anew"
_ENDINGS = {
    (".sentis",): "a model of Unity's Sentis; give the .onnx file that it was made from",
    (".pt", ".pth"): _TORCH,
    (".bytes", ".pb"): f"a TensorFlow graph, {_TENSORFLOW}",
    (".ckpt", ".cptk", ".index", ".meta", ".data-00000-of-00001"): f"a TensorFlow checkpoint, {_TENSORFLOW}",
    (".nn",): "a Barracuda model of ML-Agents before release 17",
    (".onnx",): "an ONNX model, which can be played but not trained on; give the run's folder or its checkpoint",
    (".demo",): "a recording",
}


def file_kind(path: Path, *own: str) -> str:
    """Returns the kind of a file, as `kind_of`; '' also if it cannot be read. `own`: endings of the names of files that are expected."""
    with suppress(OSError), open(path, "rb", opener=regular) as file:
        return kind_of(file.read(4096), "" if path.name.lower().endswith(own) else path.name)
    return ""


def kind_of(head: bytes, name: str = "") -> str:
    """Returns the kind of a file with these first bytes and what to do with it, such as 'a Git LFS pointer; ...'; '' if it is unknown."""
    if not head:
        return "empty"
    if found := next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None):
        return found
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if head.startswith(b"PK\x03\x04"):
        return _archive(head, name)
    if head[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "a page of HTML; download the file itself ('Raw' on GitHub)"
    if found := _by_name(name):
        return found
    if head.isascii() and len(head) > 1 and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return "a text file"
    return ""


def tensorflow_files(names: Iterable[str]) -> str:
    """Returns what to know about a folder with TensorFlow checkpoints among these names of files; '' if there are none."""
    found = next((name for name in names if name.endswith((".index", ".pb", ".bytes")) or ".ckpt" in name or ".cptk" in name), None)
    return f"it has {found}, a file of TensorFlow, {_TENSORFLOW}" if found else ""


def _archive(head: bytes, name: str) -> str:
    """Returns the kind of a zip archive by the names of its first files."""
    if b"data.pkl" in head[:200]:
        return _TORCH
    if name.endswith(".zip") and any(part in head for part in (b"policy.pth", b"_stable_baselines3_version", b"data{")):
        return "a model of Stable-Baselines3; `palaestra convert` makes an ONNX model of it"
    return "a zip archive; unpack it first"


def _by_name(name: str) -> str:
    return next((kind for endings, kind in _ENDINGS.items() if name.lower().endswith(endings)), "")
