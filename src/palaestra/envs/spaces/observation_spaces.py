"""Finds the observations in a Gymnasium space: a plain space is one leaf, a Dict or Tuple has one for each entry."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace

import numpy as np
from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.core.specs import ObsSpec, RawObs
from palaestra.envs.spaces.observation_leaves import Elements, Image, Leaf, OneHot, Vector

MAX_CHANNELS = 4  # an image with a longer last axis may have its channels first, unless its other axes are a square's
MOST_NUMBERS = 2**22
"""Most numbers of one observation: 16 MB for each stored decision."""
MOST_CHOICES = 2**16
"""Most numbers in a one-hot."""
MOST_ELEMENTS = 32
"""Rows for the elements of a Sequence, unless the environment says otherwise."""
WHITE = 255
LEAVE_OUT = "--set env_settings.env_options.leave_out=[{}] (or metadata['leave_out'] in the environment's class)"
INSTEAD = {
    spaces.Text: "encode the text as numbers, such as MultiDiscrete with the index of each character",
    spaces.Graph: "give the nodes as a Sequence of Box (with what an agent needs of the edges in each), or as a Box of "
    "fixed size",
    spaces.OneOf: "give a Tuple of all alternatives, zeros for those absent, and a Discrete that says which one holds",
}
"""For each space that is not supported: the form in which an environment may give the same values."""


def observation_leaves(
    space: spaces.Space, *, most: int = MOST_ELEMENTS, leave_out: Collection[str] | None = None
) -> list[Leaf]:
    """Returns the leaves of an observation space; entries without numbers are left out.

    `most`: maximum number of elements of a Sequence; `leave_out`: names of entries that are not observed; None: the
    user has no way to name them. Raises EnvError for an unsupported space, and for an entry to leave out that does not
    exist.
    """
    names = entry_names(space)
    if unknown := [name for name in leave_out or () if name not in names]:
        has = ", ".join(names) or "no entries"
        raise EnvError(
            f"there is no observation '{unknown[0]}' to leave out{nearest(unknown[0], names)} (the environment has: "
            f"{has})"
        )
    leaves = list(_leaves(space, (), most, leave_out))
    if not leaves:
        raise EnvError(
            f"the observations are a {space}, which holds no number; an agent needs at least one (a constant 0 will do)"
        )
    names = [leaf.spec.name for leaf in leaves]
    if twice := [name for name in names if names.count(name) > 1]:
        raise EnvError(
            f"two observations are named '{twice[0]}' in {space}; rename a key (a dot joins the keys of nested entries)"
        )
    return leaves


def _entries(space: spaces.Space) -> Iterable[tuple[Hashable, spaces.Space]]:
    if isinstance(space, spaces.Dict):
        return space.spaces.items()
    return enumerate(space) if isinstance(space, spaces.Tuple) else ()


def entry_names(space: spaces.Space, path: tuple[Hashable, ...] = ()) -> list[str]:
    """Returns the names of all entries of a space, including nested entries."""
    return [
        name
        for key, one in _entries(space)
        for name in (".".join(map(str, (*path, key))), *entry_names(one, (*path, key)))
    ]


def _leaves(
    space: spaces.Space, path: tuple[Hashable, ...], most: int, leave_out: Collection[str] | None = None
) -> Iterator[Leaf]:
    name = ".".join(map(str, path)) or "observation"
    if path and name in (leave_out or ()):
        return
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, one in _entries(space):
            yield from _leaves(one, (*path, key), most, leave_out)
    elif isinstance(space, spaces.Sequence):
        yield _elements(path, name, space, most)
    elif isinstance(space, spaces.Discrete):
        yield _one_hot(path, name, np.array(space.n), np.array(space.start))
    elif isinstance(space, spaces.MultiDiscrete):
        if space.nvec.size:
            yield _one_hot(path, name, space.nvec, space.start)
    elif not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise EnvError(_refusal(name, space, may_leave_out=bool(path) and leave_out is not None))
    elif np.prod(space.shape) > MOST_NUMBERS:
        raise EnvError(
            f"observation '{name}' is a {space} of {np.prod(space.shape)} numbers; at most {MOST_NUMBERS} can be "
            "learned from: make it smaller with a wrapper (gymnasium.wrappers.ResizeObservation for images)"
        )
    elif 0 not in space.shape:
        box = space if isinstance(space, spaces.Box) else None
        image = _image(path, name, box) if box else None
        yield replace(image or _vector(path, name, space.shape), box=box)


def _refusal(name: str, space: spaces.Space, *, may_leave_out: bool) -> str:
    usual = "a wrapper (gymnasium.wrappers.TransformObservation) can turn it into one of these"
    return (
        f"observation '{name}' is a {space}; supported are Box (vectors, images), Discrete, MultiDiscrete, "
        f"MultiBinary, Sequence, and Dict or Tuple of these: {INSTEAD.get(type(space), usual)}"
        + (f". {LEAVE_OUT.format(name)} leaves it out" if may_leave_out else "")
    )


def _vector(path: tuple[Hashable, ...], name: str, given: tuple[int, ...]) -> Vector:
    shape = (int(np.prod(given)),)
    return Vector(path, ObsSpec(name, shape, raw=None if given == shape else RawObs(given)))


def _one_hot(path: tuple[Hashable, ...], name: str, sizes: np.ndarray, start: np.ndarray) -> OneHot:
    if sum(sizes.ravel().tolist()) > MOST_CHOICES:
        raise EnvError(
            f"observation '{name}' has {sum(sizes.ravel().tolist())} values, each a number of a one-hot; at most "
            f"{MOST_CHOICES} can be learned from: give coordinates or bits instead, as a Box or MultiBinary"
        )
    raw = RawObs(sizes.shape, tuple(sizes.ravel().tolist()), tuple(start.ravel().tolist()))
    sizes = sizes.ravel()
    start = start.ravel()
    return OneHot(path, ObsSpec(name, (int(sizes.sum()),), raw=raw), sizes, np.cumsum(sizes) - sizes - start)


def _image(path: tuple[Hashable, ...], name: str, space: spaces.Box) -> Image | None:
    """Returns an Image leaf, or None. Four axes are a stack of images, whose channels are concatenated."""
    is_uint8 = space.dtype == np.uint8
    axes = len(space.shape)
    most = float(space.high.max())
    scale = 1 / most if most > 1 else 1.0  # a board of 0 to 2 fills 0..1, as an image of 0 to 255 does
    if axes == 2 and is_uint8:
        return Image(path, ObsSpec(name, (1, *space.shape), raw=RawObs(space.shape, scale=scale)), None, scale)
    within_one = bool((space.low >= 0).all() and (space.high <= 1).all())
    is_bytes = is_uint8 or bool((space.low == 0).all() and (space.high == WHITE).all())
    if axes not in (3, 4) or not (is_bytes or within_one):
        return None
    stack, (first, middle, last) = space.shape[:-3], space.shape[-3:]
    channels = axes - 3 if last > MAX_CHANNELS and first < last and first != middle else axes - 1
    height, width = (size for axis, size in enumerate(space.shape) if axis >= axes - 3 and axis != channels)
    raw = RawObs(space.shape, channels=channels, scale=scale)
    return Image(
        path, ObsSpec(name, (int(np.prod(stack)) * space.shape[channels], height, width), raw=raw), channels, scale
    )


def _elements(path: tuple[Hashable, ...], name: str, space: spaces.Sequence, most: int) -> Elements:
    parts = [_flat(leaf) for leaf in _leaves(space.feature_space, (), most)]
    size = 1 + sum(part.spec.shape[0] for part in parts)
    rows = tuple((".".join(map(str, part.path)), part.spec.raw or RawObs(part.spec.shape)) for part in parts)
    return Elements(path, ObsSpec(name, (most, size), raw=RawObs((), rows=rows)), space, tuple(parts))


def _flat(leaf: Leaf) -> Leaf:
    """Returns a leaf of an element, with images as vectors."""
    if isinstance(leaf, Elements):
        raise EnvError(
            f"observation '{leaf.spec.name}' is a {leaf.space} within a Sequence; elements of a Sequence have a fixed "
            "size"
        )
    if isinstance(leaf, Image):
        return _vector(leaf.path, leaf.spec.name, leaf.spec.raw.shape if leaf.spec.raw else leaf.spec.shape)
    return leaf
