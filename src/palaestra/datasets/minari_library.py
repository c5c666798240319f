"""Minari (https://minari.farama.org): its datasets on this machine. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from palaestra.core.errors import DemoError, exception_summary
from palaestra.core.files import expanded, home, regular
from palaestra.core.plugins import nearest

MINARI = "minari:"
"""Prefix of the names of Minari datasets."""
PIP = "pip install 'palaestra[minari]'"
METADATA = "metadata.json"
HDF5 = "main_data.hdf5"
MOST_ARRAYS = 10_000
"""Most arrays and groups of one episode."""
PACKED = 1100
"""Most bytes that one byte of a file can hold: deflate packs 1032 times at most."""
UNASKED = 64 << 20
"""Bytes of an episode that are read in any case, without asking for the free memory."""
_PATH_STARTS = ("/", "./", "../", "~", ".\\", "..\\")


def is_minari(source: Path | str) -> bool:
    """Whether a name means a Minari dataset."""
    return str(source).startswith(MINARI)


def datasets_root() -> Path:
    """Returns MINARI_DATASETS_PATH, or `~/.minari/datasets`. Raises DemoError if there is neither."""
    if found := os.environ.get("MINARI_DATASETS_PATH"):
        return Path(found).absolute()
    if (own := home()) is None:
        raise DemoError(
            "this user has no home folder, where Minari keeps its datasets: set MINARI_DATASETS_PATH, or name a folder"
        )
    return own / ".minari" / "datasets"


def local_ids() -> list[str]:
    """Returns the ids of the datasets on this machine, sorted."""
    root = datasets_root()
    found = list[str]()
    for place, folders, _ in os.walk(root):
        if "data" in folders:  # an arrow dataset has a folder for each episode within
            found += [Path(place).relative_to(root).as_posix()] if (Path(place) / "data" / METADATA).is_file() else []
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return sorted(found)


def data_folder(source: str) -> Path:
    """Returns the data folder of `minari:ID` or `minari:FOLDER`. Raises DemoError if it is not on this machine."""
    name = source.removeprefix(MINARI).strip()
    if not name:
        raise DemoError(f"{source} names no dataset; expected minari:ID or minari:FOLDER{_there_are()}")
    places = [expanded(Path(name))]
    if not name.startswith(_PATH_STARTS) and not Path(name).is_absolute() and ".." not in Path(name).parts:
        places.insert(0, datasets_root() / name)
    for place in places:
        for folder in (place / "data", place):
            if (folder / METADATA).is_file():
                return folder
            if (folder / HDF5).is_file():
                raise DemoError(
                    f"{source}: {folder} has data but no {METADATA}: writing it was interrupted, or it was written by "
                    "Minari before 0.5; write or download it again"
                )
    if len(places) == 1 or places[1].is_dir():
        what = "the folder holds no Minari dataset" if places[-1].is_dir() else "there is no such folder"
        raise DemoError(
            f"{source}: {what} ({places[-1].absolute()}); expected one with {METADATA}, or with data/{METADATA}"
        )
    raise DemoError(
        f"{source}: there is no such dataset on this machine (in "
        f"{datasets_root()}){nearest(name, local_ids())}{_there_are()}; to download it: minari download {name}"
    )


def open_storage(folder: Path, source: str) -> tuple[Any, dict[str, Any]]:
    """Returns Minari's storage of a dataset and its unchanged metadata. Raises DemoError."""
    storage_class = storage_type()
    try:
        for file in (folder / METADATA, folder / HDF5):
            if file.exists():
                os.close(regular(str(file), os.O_RDONLY))
        return storage_class.read(folder), storage_class.read_raw_metadata(folder)
    except ImportError as error:
        raise DemoError(f"{source} cannot be read: {error}; all formats: {PIP}") from error
    except Exception as error:  # whatever Minari does with a damaged dataset
        raise unreadable(source, error) from error


def declared_bytes(folder: Path, episode: int, where: str) -> int:
    """Returns the bytes of a large episode according to the shapes in an HDF5 file; 0 for a small one, and for formats
    that declare none.

    Raises DemoError if the shapes declare more than the file can hold: HDF5 makes up rows where nothing was written.
    Also raises DemoError for arrays in other files.
    """
    if not (folder / HDF5).is_file():
        return 0
    import h5py

    declared = held = seen = 0
    with h5py.File(folder / HDF5, "r") as file:
        groups: list[Any] = [file[f"episode_{episode}"]]
        while groups:
            group = groups.pop()
            for name in group:
                seen += 1
                if seen > MOST_ARRAYS:  # a group may hold itself
                    raise DemoError(f"{where} has more than {MOST_ARRAYS:,} arrays")
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise DemoError(f"{where}: '{name}' is a link; expected the data themselves")
                found = group[name]
                if isinstance(found, h5py.Group):
                    groups.append(found)
                elif isinstance(found, h5py.Dataset):
                    if found.external or found.is_virtual:
                        raise DemoError(f"{where}: '{name}' lies in another file; expected the data themselves")
                    declared = declared + int(found.nbytes)
                    held = held + int(found.id.get_storage_size())
    if declared <= UNASKED:
        return 0
    if declared > PACKED * held:
        raise DemoError(f"{where} is damaged: it declares {declared:,} bytes, and its file holds {held:,}")
    return declared


def storage_type() -> Any:
    """Returns Minari's class of storages. Raises DemoError if Minari is not installed."""
    try:
        from minari.dataset.minari_storage import MinariStorage
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] != "minari":
            raise DemoError(f"Minari cannot be imported: {error}; {PIP}") from error
        raise DemoError(f"Minari datasets need the package minari: {PIP}") from error
    return MinariStorage


def unreadable(source: str, error: Exception, what: str = "") -> DemoError:
    """Returns the error for a dataset that Minari cannot read, which is damaged or was not completely written."""
    text = f"no entry {error}" if isinstance(error, KeyError) else exception_summary(error)
    return DemoError(
        f"{source} cannot be read{what}: {text}; it is damaged, being written, or writing it was interrupted"
    )


def _there_are() -> str:
    ids = local_ids()
    return f"; there are: {', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''}" if ids else "; there are none"
