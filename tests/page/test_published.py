"""A published page, opened from its folder with no network: episodes, slider, and a policy that plays as ours does."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from browser import FLAGS, SHOTS, SIZES, SPILLS, chromium, palaestra, sync_api, until
from test_accessible import violations

from palaestra.brains.model import load_policy
from palaestra.core.plugins import registry
from palaestra.core.timestep import Action
from palaestra.web.publishing.browser_libraries import FILES, VERSION, cache_folder

WORLD = """async ([name, states, actions]) => {
  const { WORLDS } = await import(URL.createObjectURL(new Blob([PALAESTRA.worldsText], { type: 'text/javascript' })));
  const world = new WORLDS[name](states.length);
  world.state = states;
  const { rewards, ends } = world.step(actions);
  const masks = world.mask();
  return { obs: world.observe(), masks, rewards, ends,
    rows: world.rows().map(group => world.state.map(one => group.map(solid => solid(one)))) };
}"""
ACTIONS = "async (rows) => (await palaestra.policy()).act(rows)"


@pytest.fixture(scope="module")
def alone() -> Iterator[Any]:
    """A browser that reaches no network, and what it has asked for all the same."""
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        context = browser.new_context(viewport={"width": 1200, "height": 1000})
        asked: list[str] = []

        def answer(route: Any) -> None:
            if route.request.url.startswith(("file:", "blob:", "data:", "http://127.0.0.1:")):
                route.continue_()
            else:
                asked.append(route.request.url)
                route.abort()

        context.route("**/*", answer)
        yield context, asked
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    more = ("--max-steps=36000", "--set", "behaviors.3DBall.checkpoint_interval=12000")
    assert palaestra(folder, "learn", "--env=3DBall", "--run-id=ball", *more).returncode == 0
    done = palaestra(folder, "publish", "ball")
    assert done.returncode == 0, done.stderr
    if not all((cache_folder() / f"onnxruntime-web-{VERSION}" / name).is_file() for name in FILES):
        pytest.skip(f"onnxruntime-web could not be fetched: {done.stderr}")
    assert sum(file.stat().st_size for file in (folder / "site").rglob("*") if file.is_file()) < 15e6
    return folder / "site"


def opened(alone: Any, site: Path, address: str = "") -> Any:
    page = alone[0].new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(address or (site / "index.html").as_uri())
    page.wait_for_function("window.palaestra !== undefined", timeout=60_000)
    return page


@pytest.mark.slow
def test_a_published_run_plays_from_its_folder_and_its_policy_acts_as_ours(alone, site):
    page = opened(alone, site)
    assert page.locator("#step").inner_text() == "The newest model"
    page.evaluate("palaestra.choose(0)")
    until(lambda: page.locator("#step").inner_text() == "After 0 decisions", 20)
    shown = page.evaluate("palaestra.view.shown")
    until(lambda: page.evaluate("palaestra.view.shown") > shown + 3, 30, "frames")
    obs = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    theirs = np.array(page.evaluate(ACTIONS, obs.tolist()))
    ours = load_policy(site / "3DBall.onnx").act([obs], deterministic=True).continuous
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    page.locator("#live").click()
    until(lambda: page.locator("#step").inner_text().startswith("It plays now"), 60)
    until(lambda: page.evaluate("palaestra.live().world.state[0].age") > 10, 60, "ticks")
    page.locator("#join").click()
    assert page.locator("#reward").inner_text().startswith(("You", "The policy"))
    assert page.errors == []
    assert alone[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_published_page_has_no_serious_barrier_and_needs_no_mouse(alone, site, size, dark):
    page = opened(alone, site)
    page.set_viewport_size(SIZES[size])
    if dark:
        page.locator("#theme").click()
    page.locator("#live").click()
    until(lambda: page.locator("#step").inner_text().startswith("It plays now"), 60)
    assert violations(page) == []
    assert page.evaluate(SPILLS) == []
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"published-{size}-{'dark' if dark else 'light'}.png", full_page=True)
    page.locator("#steps").focus()
    page.keyboard.press("ArrowLeft")
    until(lambda: page.locator("#step").inner_text().startswith("After "), 20, "an earlier policy")
    page.close()


STATES = {
    "3DBall": lambda env, i: (
        {name: env._columns[name][i].tolist() for name in ("tilt", "position", "velocity", "spin")}
        | {"age": int(env._columns["age"][i])}
    ),
    "CartPole": lambda env, i: {"at": env._columns["state"][i].tolist(), "age": int(env._columns["age"][i])},
    "Basic": lambda env, i: {"at": int(env._columns["position"][i])},
    "GridWorld": lambda env, i: {
        "board": env._columns["board"][i][:25].tolist(),
        "wanted": int(env._columns["wanted"][i]),
        "age": int(env._columns["age"][i]),
    },
    "RingOut": lambda env, i: {
        "age": int(env._columns["age"][i]),
        "discs": [
            {name: env._columns[name][3 * i + j].tolist() for name in ("position", "velocity", "inside", "earned")}
            for j in range(3)
        ],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STATES))
def test_worlds_in_the_browser_follow_the_same_rules(alone, site, name):
    page = opened(alone, site)
    env = registry("envs").get(name)(4)
    env.reset(1)
    rng = np.random.default_rng(0)
    spec = env.spec.action
    slots = 4 * env.agents
    for tick in range(60):
        continuous = rng.uniform(-1, 1, (slots, spec.continuous)).astype(np.float32)
        discrete = (
            np.stack([rng.integers(size, size=slots) for size in spec.branches], 1)
            if spec.branches
            else np.zeros((slots, 0), np.int64)
        )
        states = [STATES[name](env, i) for i in range(4)]
        actions = (continuous if spec.continuous else discrete).tolist()
        theirs = page.evaluate(WORLD, [name, states, actions])
        (step,) = env.step({env.behavior: Action(torch.from_numpy(continuous), torch.from_numpy(discrete))}).values()
        going = ~(step.terminated | step.truncated).numpy()
        np.testing.assert_allclose(theirs["rewards"], step.reward.numpy(), atol=1e-5, err_msg=f"tick {tick}")
        assert theirs["ends"] == (~going.reshape(4, -1).all(1)).tolist()
        seen = np.concatenate([one.numpy().reshape(slots, -1) for one in step.obs], 1)
        np.testing.assert_allclose(np.array(theirs["obs"])[going], seen[going], atol=2e-4)
        if theirs["masks"] is not None:
            np.testing.assert_array_equal(np.array(theirs["masks"])[going], step.action_mask.numpy()[going])
        drawn = [one for one in env.drawing(np.arange(4)).solids if not one.fixed]
        whole = going.reshape(4, -1).all(1)
        for group, rows in zip(drawn, theirs["rows"], strict=True):
            np.testing.assert_allclose(np.array(rows)[whole][..., :3], group.position[whole], atol=2e-4)
            np.testing.assert_allclose(np.array(rows)[whole][..., 7:10], group.size[whole], atol=2e-4)


@pytest.mark.slow
def test_a_policy_that_sees_pictures_and_masks_acts_in_the_browser_as_here(alone, site, tmp_path):
    assert palaestra(tmp_path, "learn", "--env=GridWorld", "--run-id=grid", "--max-steps=1500").returncode == 0
    done = palaestra(tmp_path, "publish", "grid", "--areas=2")
    assert done.returncode == 0, done.stderr
    env = registry("envs").get("GridWorld")(8)
    step = env.reset(1)["GridWorld"]
    seen = [one.numpy() for one in step.obs]
    ours = load_policy(tmp_path / "site" / "GridWorld.onnx").act(
        seen, action_mask=step.action_mask.numpy(), deterministic=True
    )
    assert not any((tmp_path / "site" / "assets").glob("model.js"))  # a large one is given by a host
    assert sum(file.stat().st_size for file in (tmp_path / "site").rglob("*") if file.is_file()) < 15e6
    host = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), host) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = opened(alone, tmp_path / "site", f"http://127.0.0.1:{server.server_port}/index.html")
        masked_policy(page, seen, step, ours)
        server.shutdown()
    assert page.errors == []
    assert alone[1] == []


def masked_policy(page: Any, seen: list[np.ndarray], step: Any, ours: Any) -> None:
    rows = np.concatenate([one.reshape(8, -1) for one in seen], 1)
    masked = "async ([rows, mask]) => (await palaestra.policy()).act(rows, mask)"
    theirs = page.evaluate(masked, [rows.tolist(), step.action_mask.numpy().astype(int).tolist()])
    np.testing.assert_array_equal(theirs, ours.discrete)
    page.locator("#live").click()
    until(lambda: page.locator("#step").inner_text().startswith("It plays now"), 60)
    until(lambda: page.locator("#reward").inner_text() != "", 60, "ticks")
    page.locator("#join").click()
    cell = "palaestra.live().world.state[1].board.indexOf(3)"
    page.evaluate("palaestra.live().world.state[1].board = [1, 2, ...new Array(22).fill(0), 3]")
    page.keyboard.press("w")
    until(lambda: page.evaluate(cell) == 19, 10, "a step up after a short press")
