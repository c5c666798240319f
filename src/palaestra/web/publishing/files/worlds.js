// The rules of small worlds, as `palaestra.envs.builtin` has them, for policies that play in the browser.
//
// A world has `areas` areas of `agents` agents each. `observe()` returns a row of numbers for each agent, one observation
// after the other, `mask()` for each agent which choices are allowed (1) or not, or null, `step(actions)` takes an array or a choice for each agent and returns rewards and ends
// (an area whose episode ended begins the next), and `rows()` the solids that move, in the order of the page's scene:
// functions of an area that return [x, y, z, qx, qy, qz, qw, width, height, depth, color].
const uniform = (low, high) => low + (high - low) * Math.random();
const [BLUE, RED, GOLD, INK, PAPER, GREEN] = [0x427ac4, 0xd05046, 0xeeb03c, 0x343a46, 0xf6f5f0, 0x3ea062];
const STILL = [0, 0, 0, 1];

const times = ([ax, ay, az, aw], [bx, by, bz, bw]) => [
  aw * bx + ax * bw + ay * bz - az * by,
  aw * by - ax * bz + ay * bw + az * bx,
  aw * bz + ax * by - ay * bx + az * bw,
  aw * bw - ax * bx - ay * by - az * bz,
];
const turned = (q, [x, y, z]) => times(times(q, [x, y, z, 0]), [-q[0], -q[1], -q[2], q[3]]).slice(0, 3);
const inverse = ([x, y, z, w]) => [-x, -y, -z, w];
const unit = (v) => v.map((x) => x / Math.hypot(...v));
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const add = (a, b, by = 1) => a.map((x, i) => x + by * b[i]);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const about = (axis, angle) => [...axis.map((x) => x * Math.sin(angle / 2)), Math.cos(angle / 2)];

class Ball {
  constructor(areas) {
    this.areas = areas;
    this.agents = 1;
    this.state = Array.from({ length: areas }, () => this.begun({ spin: [0, 0, 0] }));
  }

  begun(one) {
    const turn = () => (uniform(-10, 10) * Math.PI) / 180;
    const tilt = times(about([1, 0, 0], turn()), about([0, 0, 1], turn()));
    return { ...one, tilt, position: [uniform(-1.5, 1.5), 4, uniform(-1.5, 1.5)], velocity: [0, 0, 0], age: 0 };
  }

  observe() {
    return this.state.map((one) => [one.tilt[2], one.tilt[0], ...one.position, ...one.velocity]);
  }

  mask() {
    return null;
  }

  step(actions) {
    const rewards = [], ends = [];
    this.state = this.state.map((one, i) => {
      const [z, x] = actions[i].map((value) => Math.min(Math.max(value, -1), 1));
      let aboutZ = about([0, 0, 1], (2 * Math.PI * z) / 180), aboutX = about([1, 0, 0], (2 * Math.PI * x) / 180);
      let reward = 0.1, over = false;
      for (let tick = 0; tick < 5; tick++) {
        if (aboutZ[2] * one.tilt[2] <= 0 || Math.abs(one.tilt[2]) < 0.25) one.tilt = times(one.tilt, aboutZ);
        if (aboutX[0] * one.tilt[0] <= 0 || Math.abs(one.tilt[0]) < 0.25) one.tilt = times(one.tilt, aboutX);
        const [px, py, pz] = one.position;
        const fallen = py < -2 || Math.abs(px) > 3 || Math.abs(pz) > 3;
        one.age++;
        if ((fallen || one.age >= 5000) && !over) {
          over = true;
          reward = fallen ? -1 : 0.1;
          one = this.begun(one);
          aboutZ = aboutX = STILL;
        }
        one = this.moved(one);
      }
      rewards.push(reward);
      ends.push(over);
      return { ...one, tilt: unit(one.tilt) };
    });
    return { rewards, ends };
  }

  moved({ tilt, position, velocity, spin, age }) {
    const radius = 0.5, edge = 2.5;
    velocity = add(velocity, [0, -9.81 * 0.02, 0]);
    spin = spin.map((x) => x * (1 - 0.01 * 0.02));
    const local = turned(inverse(tilt), position);
    let normal = turned(tilt, [0, 1, 0]), gap = local[1] - edge - radius;
    if (Math.abs(local[0]) > edge || Math.abs(local[2]) > edge) {
      const away = local.map((x) => x - Math.min(Math.max(x, -edge), edge)), distance = Math.hypot(...away);
      normal = turned(tilt, away.map((x) => x / distance));
      gap = distance - radius;
    }
    const push = -dot(velocity, normal) - Math.max(gap, 0) / 0.02;
    if (push > 0) {
      velocity = add(velocity, normal, push);
      const arm = normal.map((x) => -radius * x);
      let slip = add(velocity, cross(spin, arm));
      slip = add(slip, normal, -dot(slip, normal));
      let pull = slip.map((x) => (-2 / 7) * x);
      const most = 0.6 * push, length = Math.hypot(...pull);
      if (length > most) pull = pull.map((x) => (x * most) / length);
      velocity = add(velocity, pull);
      spin = add(spin, cross(arm, pull), 2.5 / (radius * radius));
    }
    const fast = Math.hypot(...spin);
    if (fast > 7) spin = spin.map((x) => (x * 7) / fast);
    position = add(position, velocity, 0.02);
    if (gap < 0) position = add(position, normal, Math.min(-0.8 * gap, 0.2));
    return { tilt, position, velocity, spin, age };
  }

  rows() {
    const turn = ({ tilt: [x, y, z, w] }) => [-x, -y, z, w];
    const eye = (side) => (one) => [...turned(turn(one), [side, 0.6, 2.5]), ...turn(one), 0.55, 0.9, 0.2, INK];
    return [
      [(one) => [0, 0, 0, ...turn(one), 5, 5, 5, BLUE]],
      [eye(-0.75), eye(0.75)],
      [({ position: [x, y, z] }) => [x, y, -z, ...STILL, 1, 1, 1, GOLD]],
    ];
  }

  keys = { a: [1, 0], d: [-1, 0], w: [0, 1], s: [0, -1] };
  hint = "A D W S tilt the block in front";
}

class CartPole {
  constructor(areas) {
    this.areas = areas;
    this.agents = 1;
    this.state = Array.from({ length: areas }, () => this.begun());
  }

  begun() {
    return { at: Array.from({ length: 4 }, () => uniform(-0.05, 0.05)), age: 0 };
  }

  observe() {
    return this.state.map((one) => one.at);
  }

  mask() {
    return null;
  }

  step(actions) {
    const rewards = [], ends = [];
    this.state = this.state.map(({ at: [x, velocity, angle, turning], age }, i) => {
      const force = actions[i][0] === 1 ? 10 : -10, cosine = Math.cos(angle), sine = Math.sin(angle);
      const common = (force + 0.05 * turning * turning * sine) / 1.1;
      const angular = (9.8 * sine - cosine * common) / (0.5 * (4 / 3 - (0.1 * cosine * cosine) / 1.1));
      const linear = common - (0.05 * angular * cosine) / 1.1;
      const at = [x + 0.02 * velocity, velocity + 0.02 * linear, angle + 0.02 * turning, turning + 0.02 * angular];
      const over = Math.abs(at[0]) > 2.4 || Math.abs(at[2]) > (12 * 2 * Math.PI) / 360 || age + 1 >= 500;
      rewards.push(1);
      ends.push(over);
      return over ? this.begun() : { at, age: age + 1 };
    });
    return { rewards, ends };
  }

  rows() {
    const track = -0.62, axle = track + 0.34, lying = [Math.SQRT1_2, 0, 0, Math.SQRT1_2];
    const pole = (share) => ({ at: [x, , angle] }) => [x + Math.sin(angle) * share, axle + Math.cos(angle) * share, 0.2];
    const wheel = (side, front) => ({ at: [x] }) => [x + side, track + 0.07, front, ...lying, 0.14, 0.06, 0.14, INK];
    return [
      [({ at: [x] }) => [x, track + 0.21, 0, ...STILL, 0.56, 0.22, 0.34, BLUE]],
      [wheel(-0.18, -0.16), wheel(-0.18, 0.16), wheel(0.18, -0.16), wheel(0.18, 0.16)],
      [(one) => [...pole(0.5)(one), 0, 0, -Math.sin(one.at[2] / 2), Math.cos(one.at[2] / 2), 0.07, 1, 0.07, GOLD]],
      [(one) => [...pole(1)(one), ...STILL, 0.11, 0.11, 0.11, GOLD]],
      [({ at: [x] }) => [x, axle, 0.2, ...STILL, 0.11, 0.11, 0.11, INK]],
    ];
  }

  keys = { a: [0], d: [1] };
  hint = "A D push the cart in front, until the other one is pressed";
  idle = null; // the last choice goes on
}

class Basic {
  constructor(areas) {
    this.areas = areas;
    this.agents = 1;
    this.state = Array.from({ length: areas }, () => ({ at: 10 }));
  }

  observe() {
    return this.state.map(({ at }) => Array.from({ length: 20 }, (_, place) => Number(place === at)));
  }

  mask() {
    return null;
  }

  step(actions) {
    const rewards = [], ends = [];
    this.state = this.state.map(({ at }, i) => {
      const to = at + [0, -1, 1][actions[i][0]], prize = to === 7 ? 0.1 : to === 17 ? 1 : 0;
      rewards.push(prize - 0.01);
      ends.push(prize > 0);
      return { at: prize > 0 ? 10 : to };
    });
    return { rewards, ends };
  }

  rows() {
    const place = ({ at }) => at - 9.5, height = -0.8 + 0.42;
    const eye = (side) => (one) => [place(one) + side, height + 0.12, 0.42, ...STILL, 0.14, 0.2, 0.06, INK];
    return [[(one) => [place(one), height, 0, ...STILL, 0.84, 0.84, 0.84, BLUE]], [eye(-0.17), eye(0.17)]];
  }

  keys = { a: [1], d: [2] };
  hint = "A D move the agent in front";
  idle = [0];
}

const rotate = ([x, y], angle) => [Math.cos(angle) * x - Math.sin(angle) * y, Math.sin(angle) * x + Math.cos(angle) * y];

class RingOut {
  constructor(areas) {
    this.areas = areas;
    this.agents = 3;
    this.state = Array.from({ length: areas }, () => this.begun());
  }

  begun() {
    const discs = [0, 1, 2].map((j) => ({
      position: rotate([uniform(-0.5, 0.5) - 3, uniform(-0.5, 0.5)], (j * 2 * Math.PI) / 3),
      velocity: [0, 0], inside: true, earned: 0,
    }));
    return { discs, age: 0 };
  }

  ring(age) {
    return 5 * Math.min(Math.max(1 - (age - 50) / 200, 0), 1);
  }

  observe() {
    return this.state.flatMap(({ discs, age }) =>
      discs.map((one, j) => {
        const seen = (v) => rotate(v, (-j * 2 * Math.PI) / 3).map((x) => x / 5);
        const others = [1, 2].flatMap((k) => {
          const other = discs[(j + k) % 3], there = Number(other.inside);
          const apart = (name) => seen(add(other[name], one[name], -1).map((x) => there * x));
          return [...apart("position"), ...apart("velocity"), there];
        });
        return [...seen(one.position), ...seen(one.velocity), Number(one.inside), this.ring(age) / 5, ...others];
      }));
  }

  mask() {
    return null;
  }

  step(actions) {
    const rewards = [], ends = [];
    this.state = this.state.map((area, i) => {
      area = { discs: area.discs, age: area.age + 1 };
      let left = area.discs.filter((one) => one.inside).length;
      for (let tick = 0; tick < 5 && left > 1; tick++) left = this.tick(area, actions.slice(3 * i, 3 * i + 3), left);
      const over = left < 2;
      rewards.push(...area.discs.map((one) => (over ? (one.inside ? 1 : one.earned) : 0)));
      ends.push(over);
      return over ? this.begun() : area;
    });
    return { rewards, ends };
  }

  tick(area, actions, left) {
    const inside = area.discs.filter((one) => one.inside);
    area.discs = area.discs.map((one, j) => {
      if (!one.inside) return one;
      const way = actions[j][0], angle = ((way - 1) * Math.PI) / 4 + (j * 2 * Math.PI) / 3;
      const pushed = way > 0 ? add(one.velocity, [Math.cos(angle), Math.sin(angle)], 0.2) : one.velocity;
      const velocity = pushed.map((x) => x * (1 - 1.5 * 0.02));
      return { ...one, velocity, position: add(one.position, velocity, 0.02) };
    });
    const before = area.discs;
    area.discs = before.map((one, j) => {
      if (!one.inside) return one;
      let { position, velocity } = one;
      for (const [k, other] of before.entries()) {
        const to = add(other.position, one.position, -1), distance = Math.hypot(...to);
        if (k === j || !other.inside || distance > 1) continue;
        const normal = distance > 1e-6 ? to.map((x) => x / distance) : [1, 0];
        const approach = Math.max(dot(add(one.velocity, other.velocity, -1), normal), 0);
        position = add(position, normal, -0.5 * (1 - distance));
        velocity = add(velocity, normal, -0.5 * 1.8 * approach);
      }
      return { ...one, position, velocity };
    });
    const rim = this.ring(area.age), out = (one) => one.inside && dot(one.position, one.position) >= rim * rim;
    const fallen = area.discs.filter(out).length;
    const earned = 2 - left + 0.5 * (fallen - 1);
    area.discs = area.discs.map((one) => (out(one) ? { ...one, inside: false, velocity: [0, 0], earned } : one));
    return inside.length - fallen;
  }

  rows() {
    const wide = ({ age }) => 2 * this.ring(age);
    const disc = (j, part) => ({ discs }) => {
      const one = discs[j], radius = one.inside ? 0.5 : 0.25, low = one.inside ? 0 : -0.16, [x, y] = one.position;
      return part
        ? [x, low + 0.9 * radius, -y, ...STILL, radius, 0.6 * radius, radius, PAPER]
        : [x, low + 0.45 * radius, -y, ...STILL, 2 * radius, 0.9 * radius, 2 * radius, [BLUE, RED, GOLD][j]];
    };
    return [
      [(one) => [0, -0.11, 0, ...STILL, wide(one) + 0.2, 0.2, wide(one) + 0.2, INK]],
      [(one) => [0, -0.1, 0, ...STILL, wide(one), 0.2, wide(one), GREEN]],
      [0, 1, 2].map((j) => disc(j, 0)),
      [0, 1, 2].map((j) => disc(j, 1)),
    ];
  }

  keys = { d: [1], e: [2], w: [3], q: [4], a: [5], z: [6], s: [7], c: [8] };
  hint = "you are the blue disc in front: keys around S push to their side of it, S downward";
  idle = [0];
}

// Colors of GridWorld's picture, as its camera takes them.
const pixel = (...color) => color.map((part) => part / 255);
const [FLOOR, SHADED, WALL] = [pixel(61, 63, 66), pixel(42, 44, 47), pixel(122, 124, 128)];
const PAINT = { 1: pixel(125, 210, 135), 2: pixel(209, 83, 69), 3: pixel(55, 174, 255) };
const [PLUS, CROSS, AGENT] = [1, 2, 3];

class GridWorld {
  constructor(areas) {
    this.areas = areas;
    this.agents = 1;
    this.edge = 5;
    this.state = Array.from({ length: areas }, () => this.begun());
  }

  begun() {
    const board = new Array(this.edge * this.edge).fill(0);
    for (const thing of [PLUS, CROSS, AGENT]) {
      let cell;
      do cell = Math.floor(Math.random() * board.length);
      while (board[cell]);
      board[cell] = thing;
    }
    return { board, wanted: Math.random() < 0.5 ? PLUS : CROSS, age: 0 };
  }

  // The cell that a choice leads to: nothing, up, down, left, right.
  next(cell, choice) {
    const { edge } = this, row = Math.floor(cell / edge), column = cell % edge;
    const [down, right] = [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]][choice], [y, x] = [row + down, column + right];
    return Math.min(x, y) < 0 || Math.max(x, y) >= edge ? cell : y * edge + x;
  }

  observe() {
    return this.state.map(({ board, wanted }) => [...this.picture(board), Number(wanted === PLUS), Number(wanted === CROSS)]);
  }

  mask() {
    return this.state.map(({ board }) => {
      const cell = board.indexOf(AGENT);
      return [1, ...[1, 2, 3, 4].map((choice) => Number(this.next(cell, choice) !== cell))];
    });
  }

  step(actions) {
    const rewards = [], ends = [];
    this.state = this.state.map((one, i) => {
      const board = [...one.board], cell = board.indexOf(AGENT), to = this.next(cell, actions[i][0]), met = to === cell ? 0 : board[to];
      board[cell] = 0;
      board[to] = AGENT;
      rewards.push(met ? (met === one.wanted ? 1 : -1) : -0.01);
      ends.push(met > 0 || one.age + 1 >= 100);
      return ends[i] ? this.begun() : { ...one, board, age: one.age + 1 };
    });
    return { rewards, ends };
  }

  // The picture of the camera above the board, 3 x 64 x 84: floor, shadows up and left of figures, figures.
  picture(board) {
    const [high, wide] = [64, 84], { edge } = this, size = high / edge, image = new Float32Array(3 * high * wide);
    const at = (row, column) => (row < edge && column < edge ? board[row * edge + column] : 0);
    for (let y = 0; y < high; y++) {
      const v = (y + 0.5) / size, row = Math.floor(v);
      for (let x = 0; x < wide; x++) {
        const u = (x + 0.5 - (wide - high) / 2) / size, column = Math.floor(u);
        let color = WALL;
        if (u >= 0 && u < edge) {
          const shaded = [0, 1].some((down) => [0, 1].some((right) =>
            at(row + down, column + right) &&
            this.shades(at(row + down, column + right), u - column - right - 0.5, v - row - down - 0.5)));
          const thing = at(row, column);
          color = thing && this.covers(thing, u - column - 0.5, v - row - 0.5) ? PAINT[thing] : shaded ? SHADED : FLOOR;
        }
        for (let k = 0; k < 3; k++) image[(k * high + y) * wide + x] = color[k];
      }
    }
    return image;
  }

  // Whether a point, in cells from a figure's middle, belongs to it.
  covers(thing, u, v) {
    const bar = 0.1, across = Math.SQRT1_2 * (u - v), along = Math.SQRT1_2 * (u + v);
    const [a, b] = (thing === CROSS ? [across, along] : [u, v]).map(Math.abs), far = Math.max(a, b);
    return far <= 0.5 && (thing === AGENT ? far >= 0.5 - 2 * bar : Math.min(a, b) <= bar);
  }

  // Whether a point of the floor lies in a figure's shadow; the left bar of the agent's frame casts none.
  shades(thing, u, v) {
    if (Math.min(u, v) < -0.5 - 0.64) return false;
    return [0, 1, 2, 3, 4, 5].some((slice) => {
      const far = (0.8425 * 0.75 * slice) / 5, [a, b] = [u + far, v + far];
      return this.covers(thing, a, b) && (thing !== AGENT || a >= 0.3 || Math.abs(b) >= 0.3);
    });
  }

  rows() {
    const { edge } = this, half = edge / 2, north = -0.5, numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    const place = (cell, height) => [(cell % edge) + 0.5 - half, height, -(half - Math.floor(cell / edge) - 0.5 + north)];
    const line = (x, y, width, depth, there) => [x, 0, -y, ...STILL, ...(there ? [width, 0.02, depth] : [0, 0, 0]), INK];
    const beam = (at, there, color, angle) => [...at, ...about([0, 1, 0], angle), ...[0.8, 0.24, 0.24].map((x) => there * x), color];
    const figure = (thing, color, turn) => [
      ...[0, 1].map((k) => [0, 1, 2, 3].map((number) => ({ board }) => {
        const goals = [...board.keys()].filter((cell) => board[cell] === thing);
        const cells = [...goals, ...[...board.keys()].filter((cell) => board[cell] !== thing)];
        return beam(place(cells[number], 0.12), Number(number < goals.length), color, turn + (k * Math.PI) / 2);
      })),
      ...[0, 1].map((k) => [({ wanted }) =>
        beam([0, 0.1, -(half + 0.75 + north)], Number(wanted === thing), color, turn + (k * Math.PI) / 2)]),
    ];
    return [
      numbers.map((number) => () => line(number - half, north, 0.05, edge, number < edge)),
      numbers.map((number) => () => line(0, number - half + north, edge, 0.05, number < edge)),
      ...figure(PLUS, GREEN, 0),
      ...figure(CROSS, RED, Math.PI / 4),
      [({ board }) => [...place(board.indexOf(AGENT), 0.34), ...STILL, 0.62, 0.62, 0.62, BLUE]],
    ];
  }

  keys = { w: [1], s: [2], a: [3], d: [4] };
  hint = "W A S D move the blue agent in front, to the figure that is shown above";
  idle = [0];
}

export const WORLDS = { "3DBall": Ball, CartPole, Basic, GridWorld, RingOut };
