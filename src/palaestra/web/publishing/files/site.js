// Shows recorded episodes of a run's checkpoints, and lets its policy play where the rules of its world are here.
const P = window.PALAESTRA;
const address = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
const unpacked = async (packed) => {
  const bytes = packed.file ? await given(packed.file) : Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};
const given = async (name) => { // only a host answers
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name} is not there`);
  return answer.arrayBuffer();
};
const NUMBERS = 11, TICK = 4; // numbers of a solid; bytes before them
const MOST_DUE = 6; // ticks that one frame plays at most
const byId = (id) => document.getElementById(id);

// The page's own scene, without the server that it usually listens to.
async function sceneIn(place) {
  const { default: component } = await import(address(P.canvas.replace('"nicegui-scene"', JSON.stringify(address(P.three)))));
  place.innerHTML = component.template;
  const view = { $el: place.firstElementChild, $emit() {}, stream: "", ghost: "" };
  for (const [name, method] of Object.entries(component.methods)) view[name] = method.bind(view);
  view.connect = () => {};
  view.$el.style.height = "100%";
  component.mounted.call(view);
  return view;
}

class Episode {
  constructor(packed, steps) {
    Object.assign(this, packed);
    const width = this.solids * NUMBERS;
    for (let i = width; i < steps.length; i++) steps[i] += steps[i - width]; // wraps around, as it was made
    this.numbers = steps;
    this.width = width;
  }

  // Numbers of the scene at a moment between two ticks; what jumps is where it was.
  frame(moment) {
    const at = Math.min(Math.floor(moment), this.ticks - 1), next = Math.min(at + 1, this.ticks - 1), share = moment - at;
    const data = new ArrayBuffer(TICK + 4 * this.width), out = new Float32Array(data, TICK);
    const { numbers, width, place, size, palette } = this;
    for (let k = 0; k < width; k += NUMBERS) {
      const a = at * width + k, b = next * width + k;
      const far = Math.max(...[0, 1, 2].map((i) => Math.abs(numbers[b + i] - numbers[a + i])));
      const part = far * place > 0.35 * this.outline.half[0] ? 0 : share;
      const side = [3, 4, 5, 6].reduce((sum, i) => sum + numbers[a + i] * numbers[b + i], 0) < 0 ? -1 : 1;
      for (let i = 0; i < 10; i++) {
        const sign = i > 2 && i < 7 ? side : 1, scale = i < 3 ? place : i < 7 ? 1 / 32767 : size;
        out[k + i] = ((1 - part) * numbers[a + i] + part * sign * numbers[b + i]) * scale;
      }
      const length = Math.hypot(out[k + 3], out[k + 4], out[k + 5], out[k + 6]) || 1;
      for (let i = 3; i < 7; i++) out[k + i] /= length;
      out[k + 10] = palette[numbers[a + 10]];
    }
    return data;
  }
}

// The run's model, by onnxruntime-web.
class Policy {
  static async load() {
    const ort = await import(address(P.ort));
    Object.assign(ort.env.wasm, { numThreads: 1, proxy: false, wasmBinary: await unpacked(P.wasm) });
    ort.env.logLevel = "error";
    const session = await ort.InferenceSession.create(new Uint8Array(await (P.model ? unpacked(P.model) : given(P.modelFile))), { executionProviders: ["wasm"] });
    return Object.assign(new Policy(), { ort, session });
  }

  // Actions for rows of numbers, one observation of the model after the other in each; `mask` as a world has it.
  async act(rows, mask) {
    const { ort, session } = this, feeds = {};
    const tensor = (data, shape) => new ort.Tensor("float32", data, [rows.length, ...shape]);
    let begin = 0;
    for (const [i, shape] of P.shapes.entries()) {
      const size = shape.reduce((a, b) => a * b), data = new Float32Array(rows.length * size);
      rows.forEach((row, k) => data.set(row.slice(begin, begin + size), k * size));
      feeds[`obs_${i}`] = tensor(data, shape);
      begin += size;
    }
    if (session.inputNames.includes("action_masks")) {
      feeds.action_masks = tensor(mask ? Float32Array.from(mask.flat()) : new Float32Array(rows.length * P.choices).fill(1), [P.choices]);
    }
    const found = await session.run(feeds);
    const chosen = found.deterministic_continuous_actions ?? found.deterministic_discrete_actions;
    const width = chosen.dims[1];
    return rows.map((_, i) => Array.from(chosen.data.slice(i * width, (i + 1) * width), Number));
  }
}

class Live {
  constructor(world, policy, outline) {
    Object.assign(this, { world, policy, outline, person: false, due: 0, rounds: 0, held: new Set(), tapped: new Set(), done: [] });
    this.last = world.idle ?? null;
    this.sums = new Array(world.areas * world.agents).fill(0);
    this.own = (world.areas - 1) * world.agents; // the person's, in front
  }

  // Plays the ticks that the time since the last frame is due; those of a tab that was hidden are left out.
  async advance(passed) {
    this.due = Math.min(this.due + passed / this.seconds, MOST_DUE);
    for (; this.due >= 1; this.due--) await this.tick();
  }

  async tick() {
    const { world } = this, rows = world.observe();
    const actions = await this.policy.act(rows, world.mask());
    if (this.person) actions[this.own] = this.typed(actions[this.own]);
    const { rewards, ends } = world.step(actions);
    rewards.forEach((reward, i) => (this.sums[i] += reward));
    ends.forEach((over, area) => {
      if (!over) return;
      this.rounds++;
      for (let i = area * world.agents; i < (area + 1) * world.agents; i++) {
        if (!Number.isNaN(this.sums[i])) this.done.push([this.person && i === this.own, this.sums[i]]);
        this.sums[i] = 0;
      }
    });
    this.done = this.done.slice(-300);
  }

  typed(instead) {
    const { keys, idle } = this.world;
    const pressed = [...new Set([...this.held, ...this.tapped])].filter((key) => key in keys).map((key) => keys[key]);
    this.tapped.clear(); // keys that went up again within the tick
    if (P.world === "3DBall") return pressed.reduce((sum, way) => sum.map((x, i) => x + way[i]), [0, 0]);
    if (pressed.length) this.last = pressed[pressed.length - 1];
    return pressed.length ? this.last : idle ?? this.last ?? instead;
  }

  frame() {
    const { middles } = this.outline, groups = this.world.rows();
    const numbers = groups.flatMap((solids) => this.world.state.flatMap((one, i) => solids.map((solid) => {
      const row = solid(one);
      middles[i].forEach((x, k) => (row[k] += x));
      return row;
    })));
    const data = new ArrayBuffer(TICK + 4 * numbers.length * NUMBERS);
    new Float32Array(data, TICK).set(numbers.flat());
    return data;
  }

  // How the games went: against others the person's alone, as what one wins another loses.
  standing() {
    const { agents } = this.world, others = agents > 1 ? `${this.rounds} rounds` : `The policy: ${shown(this.mean(false))}`;
    return this.person ? `You: ${shown(this.mean(true))} · ${others}` : others;
  }

  // A person takes a seat or leaves it; the episode that goes on counts for neither.
  sit(person) {
    this.person = person;
    this.held.clear();
    this.sums[this.own] = NaN;
  }

  mean(person) {
    const sums = this.done.filter(([own]) => own === person).map(([, sum]) => sum);
    return sums.length ? sums.reduce((a, b) => a + b) / sums.length : null;
  }
}

const shown = (value) => (value == null ? "no episode has ended yet" : value.toFixed(2));

async function main() {
  const view = await sceneIn(byId("scene"));
  const episodes = [];
  let current = null, moment = 0, playing = true, live = null, before = performance.now();
  const choose = async (number) => {
    live = null;
    byId("live").setAttribute("aria-pressed", "false");
    byId("you").hidden = true;
    const packed = P.episodes[number];
    episodes[number] ??= new Episode(packed, new Int16Array(await unpacked(packed.data)));
    current = episodes[number];
    moment = 0;
    byId("step").textContent = packed.step == null ? "The newest model" : `After ${packed.step.toLocaleString("en")} decisions`;
    byId("mark")?.setAttribute("transform", `translate(${P.places[number]} 0)`);
    view.take({ outline: current.outline });
  };
  byId("steps").max = P.episodes.length - 1;
  byId("steps").value = P.episodes.length - 1;
  byId("steps").addEventListener("input", (event) => choose(Number(event.target.value)));
  byId("play").addEventListener("click", () => {
    playing = !playing;
    byId("play").textContent = playing ? "Pause" : "Play";
  });
  byId("theme").addEventListener("click", () => document.body.classList.toggle("body--dark"));
  await choose(P.episodes.length - 1);

  const step = async () => {
    const now = performance.now(), passed = (now - before) / 1000;
    if (live) {
      before = now;
      if (playing) await live?.advance(passed);
      if (live) {
        view.frame = live.frame();
        byId("reward").textContent = live.standing();
      }
    } else if (!live && current) {
      before = now;
      if (playing) moment = (moment + passed / current.seconds) % Math.max(current.ticks - 1, 1);
      view.frame = current.frame(moment);
      byId("reward").textContent = `Mean reward so far: ${shown(current.rewards[Math.floor(moment)])}`;
    }
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);

  const World = P.world && P.worlds[P.world];
  byId("live").hidden = !(World && P.wasm && (P.model || location.protocol !== "file:"));
  const begin = async () => {
    byId("step").textContent = "Loading the policy...";
    P.policy ??= await Policy.load();
    const { outline } = P.episodes[P.episodes.length - 1];
    const one = new Live(new World(outline.middles.length), P.policy, outline);
    one.seconds = P.episodes[0].seconds;
    view.take({ outline });
    live = one;
    byId("join").setAttribute("aria-pressed", "false");
    view.focus(null);
    byId("live").setAttribute("aria-pressed", "true");
    byId("step").textContent = "It plays now, in this browser";
    byId("you").hidden = false;
    byId("keys").textContent = one.world.hint;
  };
  byId("live").addEventListener("click", () => (live ? choose(Number(byId("steps").value)) : begin().catch((error) => (byId("step").textContent = `The policy cannot play here: ${error.message}`))));
  byId("join").addEventListener("click", () => {
    if (!live) return;
    live.sit(!live.person);
    byId("join").setAttribute("aria-pressed", String(live.person));
    view.focus(live.person ? live.world.areas - 1 : null);
  });
  const press = (key) => [live?.held, live?.tapped].forEach((keys) => keys?.add(key));
  addEventListener("keydown", (event) => {
    if (!event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey) press(event.key.toLowerCase());
  });
  for (const kind of ["blur", "visibilitychange"]) addEventListener(kind, () => live?.held.clear(), true);
  addEventListener("keyup", (event) => live?.held.delete(event.key.toLowerCase()));
  for (const button of document.querySelectorAll("[data-key]")) {
    button.addEventListener("pointerdown", () => press(button.dataset.key));
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(kind, () => live?.held.delete(button.dataset.key));
  }
  window.palaestra = { view, episodes, choose, begin, policy: () => Policy.load(), live: () => live };
}

(async () => {
  P.worlds = (await import(address(P.worldsText))).WORLDS;
  await main();
})().catch((error) => {
  byId("step").textContent = `This browser cannot show it: ${error.message}`;
  throw error;
});
