import pytest
import torch
import warp as wp

from palaestra.core.timestep import Action
from palaestra.envs.builtin.base.world_columns import MOST_BUFFERS, ImageBuffers, quiet_warp
from palaestra.envs.builtin.foodcollector.env import VisualFoodCollector

with quiet_warp():
    wp.init()


@wp.struct
class World:
    obs_image: wp.array2d(dtype=wp.float32)  # type: ignore[valid-type]
    plain: wp.array(dtype=wp.int32)  # type: ignore[valid-type]


def made() -> tuple[ImageBuffers, dict[str, torch.Tensor], World]:
    columns = {"obs_image": torch.zeros(3, 4), "plain": torch.zeros(3, dtype=torch.int32)}
    world = World()
    return ImageBuffers(columns, world, ("obs_image", "plain")), columns, world


def painted(buffers: ImageBuffers, columns: dict[str, torch.Tensor], number: int) -> torch.Tensor:
    """A tick."""
    buffers.turn()
    columns["obs_image"].fill_(number)
    columns["plain"].fill_(number)
    return buffers.take()


def test_images_that_are_held_stay_as_they_were():
    buffers, columns, _ = made()
    held = [painted(buffers, columns, number) for number in range(MOST_BUFFERS + 3)]
    assert [int(image[0, 0]) for image in held] == list(range(MOST_BUFFERS + 3))


@pytest.mark.parametrize(
    "view", [lambda image: image[1:2].unsqueeze(0), lambda image: image.numpy()[:, 2]], ids=["tensor", "array"]
)
def test_a_view_of_an_image_holds_it(view):
    buffers, columns, _ = made()
    part = view(painted(buffers, columns, 1))
    painted(buffers, columns, 2)
    assert part.sum() == part.shape.numel() if isinstance(part, torch.Tensor) else part.sum() == part.size


def test_memory_that_nobody_holds_is_used_again():
    buffers, columns, _ = made()
    places = set()
    image = painted(buffers, columns, 0)
    for number in range(10):
        image = painted(buffers, columns, number)  # the one before is held until this one is there
        places.add(image.data_ptr())
    assert len(places) == 2
    assert len({painted(buffers, columns, number).data_ptr() for number in range(5)}) == 1


def test_columns_that_go_with_an_image_are_those_of_its_last_turn():
    buffers, columns, world = made()
    first = painted(buffers, columns, 1)
    second = painted(buffers, columns, 2)
    assert columns["plain"].tolist() == [2, 2, 2]
    del first
    buffers.turn()
    assert columns["plain"].tolist() == [1, 1, 1]
    assert world.plain.numpy().tolist() == [1, 1, 1]
    assert second[0, 0] == 2


def test_an_environment_does_not_write_to_images_that_it_gave():
    env = VisualFoodCollector(2, height=24, width=24)
    steps = [env.reset(1)["VisualFoodCollector"]]
    copies = [steps[0].obs[0].clone()]
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        action = Action(torch.randn(10, 3, generator=generator), torch.zeros(10, 1, dtype=torch.int64))
        steps.append(env.step({"VisualFoodCollector": action})["VisualFoodCollector"])
        copies.append(steps[-1].obs[0].clone())
    state = env.state_dict()
    env.load_state_dict({**state, "obs_image": torch.full_like(state["obs_image"], 0.5)})
    env.reset(2)
    for step, copy in zip(steps, copies, strict=True):
        torch.testing.assert_close(step.obs[0], copy, rtol=0, atol=0)
    assert (copies[0] != copies[-1]).any()
