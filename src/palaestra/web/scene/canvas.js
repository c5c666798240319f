// Shows a stream of frames: instanced solids with three.js, or pictures. Only the newest frame is ever drawn.
import { THREE, OrbitControls } from "nicegui-scene";

const NUMBERS = 11;
// Geometry of size 1, with fewer faces where there are many solids.
const SHAPES = {
  box: () => new THREE.BoxGeometry(1, 1, 1),
  sphere: (many) => new THREE.SphereGeometry(0.5, many ? 10 : 32, many ? 6 : 20),
  cylinder: (many) => new THREE.CylinderGeometry(0.5, 0.5, 1, many ? 10 : 64),
  cone: (many) => new THREE.ConeGeometry(0.5, 1, many ? 10 : 48),
};
const MANY = 200;
// What is behind and below the areas, by theme: the sky above, where it meets the ground, the ground and its lines.
const LOOKS = {
  light: { sky: "#cfe0f2", horizon: "#f1f3f5", ground: "#d9dde1", lines: "#cbd0d6", above: 0xffffff, below: 0x9a9c98, sun: 1.75 },
  dark: { sky: "#0e1420", horizon: "#262c37", ground: "#232832", lines: "#2c323d", above: 0xc9d6ea, below: 0x3b4049, sun: 1.5 },
};

const PLAIN = new THREE.Color(0xffffff);
const GHOST = 0xe08a2e; // all of a ghost, as the mark of its step in the curve

// Darkens the sides of solids toward their feet, where less of the sky is seen: a cheap stand-in for ambient occlusion.
const occluded = (shader) => {
  shader.vertexShader = shader.vertexShader
    .replace("void main() {", "varying float vFoot;\nvoid main() {\n  vFoot = position.y;");
  shader.fragmentShader = shader.fragmentShader
    .replace("void main() {", "varying float vFoot;\nvoid main() {")
    .replace("#include <color_fragment>", "#include <color_fragment>\n  diffuseColor.rgb *= mix(0.72, 1.0, smoothstep(-0.5, 0.25, vFoot));");
};

// A square of the ground with lines at its edges.
const tile = ({ ground, lines }) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 256;
  const pen = canvas.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, 256, 256);
  pen.strokeStyle = lines;
  pen.lineWidth = 4;
  pen.strokeRect(0, 0, 256, 256);
  const texture = new THREE.CanvasTexture(canvas);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.colorSpace = THREE.SRGBColorSpace;
  return texture;
};

export default {
  template: `
    <div style="position:relative; overflow:hidden">
      <canvas style="position:absolute; inset:0; width:100%; height:100%; touch-action:none"></canvas>
      <img style="position:absolute; inset:0; width:100%; height:100%; object-fit:contain; display:none" alt="">
      <div style="position:absolute; left:10px; bottom:8px; font-size:12px; opacity:.75; pointer-events:none"></div>
      <div style="position:absolute; inset:0; display:flex; align-items:center; justify-content:center; pointer-events:none">
        Waiting for the first picture...</div>
    </div>`,
  props: { stream: String, ghost: String },

  mounted() {
    [this.canvas, this.image, this.note, this.wait] = this.$el.children;
    this.groups = [];
    this.haunting = { groups: [] };
    this.received = this.shown = 0; // frames, for tests and measurements
    this.$el.counters = this;
    this.open = true;
    try {
      this.renderer = new THREE.WebGLRenderer({ canvas: this.canvas, antialias: true, alpha: true });
    } catch {
      this.wait.textContent = "This browser cannot draw in three dimensions (WebGL is off).";
    }
    if (this.renderer) this.build();
    this.connect();
    this.haunt();
  },

  unmounted() {
    this.open = false;
    this.socket?.close();
    this.haunting.socket?.close();
    this.watcher?.disconnect();
    this.themes?.disconnect();
    this.controls?.dispose();
    this.clear(this);
    this.clear(this.haunting);
    this.renderer?.dispose();
  },

  watch: {
    stream() {
      this.socket?.close();
    },
    ghost() {
      this.haunt();
    },
  },

  methods: {
    build() {
      this.scene = new THREE.Scene();
      this.camera = new THREE.PerspectiveCamera(35, 1, 0.1, 5000);
      this.controls = new OrbitControls(this.camera, this.canvas);
      this.controls.maxPolarAngle = 0.49 * Math.PI;
      this.light = new THREE.HemisphereLight(0xffffff, 0x9aa0a8, 1.9);
      this.sun = new THREE.DirectionalLight(0xfff8ee, 1.6);
      this.ground = new THREE.Mesh(new THREE.CircleGeometry(1, 64), new THREE.MeshLambertMaterial());
      this.ground.rotation.x = -Math.PI / 2;
      this.ground.receiveShadow = true;
      this.scene.add(this.light, this.sun, this.sun.target, this.ground);
      this.scene.fog = new THREE.Fog(0, 1, 2);
      this.renderer.shadowMap.enabled = true;
      this.renderer.shadowMap.type = THREE.PCFSoftShadowMap;
      this.themes = new MutationObserver(() => this.dress());
      this.themes.observe(document.body, { attributeFilter: ["class"] });
      this.dress();
      this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
      this.watcher = new ResizeObserver(() => this.resize());
      this.watcher.observe(this.$el);
      let pressed = null;
      this.canvas.addEventListener("pointerdown", (event) => (pressed = [event.clientX, event.clientY]));
      this.canvas.addEventListener("pointerup", (event) => {
        if (pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 5) this.pick(event);
      });
      let turning = false; // a click alone moves nothing
      this.controls.addEventListener("start", () => (turning = true));
      this.controls.addEventListener("end", () => (turning = false));
      this.controls.addEventListener("change", () => {
        this.dirty = true;
        this.moved ||= turning;
      });
      this.canvas.addEventListener("dblclick", () => this.focus(this.area));
      this.resize();
      const step = () => {
        if (!this.open) return;
        requestAnimationFrame(step);
        this.render();
      };
      requestAnimationFrame(step);
    },

    // Takes the colors of the page's theme.
    dress() {
      const look = LOOKS[document.body.classList.contains("body--dark") ? "dark" : "light"];
      if (look === this.look) return;
      this.look = look;
      const canvas = document.createElement("canvas");
      canvas.width = 1;
      canvas.height = 256;
      const pen = canvas.getContext("2d");
      const shades = pen.createLinearGradient(0, 0, 0, 256);
      shades.addColorStop(0, look.sky);
      shades.addColorStop(0.6, look.horizon);
      pen.fillStyle = shades;
      pen.fillRect(0, 0, 1, 256);
      this.scene.background?.dispose();
      this.scene.background = new THREE.CanvasTexture(canvas);
      this.scene.background.colorSpace = THREE.SRGBColorSpace;
      this.scene.fog.color.set(look.horizon);
      this.light.color.set(look.above);
      this.light.groundColor.set(look.below);
      this.sun.intensity = look.sun;
      this.ground.material.map?.dispose();
      this.ground.material.map = tile(look);
      this.ground.material.needsUpdate = true;
      if (this.outlined) this.fit();
      this.dirty = true;
    },

    resize() {
      const { clientWidth: width, clientHeight: height } = this.$el;
      if (!width || !height) return;
      this.renderer.setSize(width, height, false);
      this.camera.aspect = width / height;
      this.camera.updateProjectionMatrix();
      if (!this.moved) this.fit();
      this.dirty = true;
    },

    connect() {
      if (!this.open) return;
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const socket = (this.socket = new WebSocket(scheme + location.host + this.stream));
      socket.binaryType = "arraybuffer";
      socket.onmessage = (event) => {
        this.note.textContent = "";
        socket.send("");
        this.received++;
        if (typeof event.data === "string") this.take(JSON.parse(event.data));
        else if (this.outlined) this.frame = this.newest = event.data;
        else this.paint(event.data);
      };
      socket.onclose = (event) => {
        if (!this.open || socket !== this.socket) return;
        if (event.code !== 1000) this.note.textContent = event.code === 4404 ? "Ended." : "Connection lost; trying again.";
        setTimeout(() => this.connect(), event.code === 4404 ? 2000 : 700);
      };
    },

    take(message) {
      if (message.outline) this.outline(message.outline);
    },

    paint(data) {
      const address = URL.createObjectURL(new Blob([data]));
      this.image.onload = () => URL.revokeObjectURL(address);
      this.image.style.display = "block";
      this.image.src = address;
      this.wait.style.display = "none";
      this.shown++;
    },

    // Shows what moves in another stream as well, so that one can see through it.
    haunt() {
      this.haunting.socket?.close();
      this.clear(this.haunting);
      this.haunting = { groups: [] };
      this.dirty = true;
      if (!this.ghost || !this.renderer) return;
      const scheme = location.protocol === "https:" ? "wss://" : "ws://";
      const here = this.haunting;
      const socket = (here.socket = new WebSocket(scheme + location.host + this.ghost));
      socket.binaryType = "arraybuffer";
      socket.onmessage = (event) => {
        socket.send("");
        if (typeof event.data !== "string") return void (here.frame = event.data);
        this.clear(here);
        const moving = JSON.parse(event.data).outline.groups.filter((group) => !group.fixed);
        here.groups = moving.map((group) => this.meshOf({ ...group, tint: GHOST }, 0.45 * group.opacity));
      };
    },

    clear(feed) {
      for (const { mesh } of feed.groups) {
        this.scene.remove(mesh);
        mesh.geometry.dispose();
        mesh.material.dispose();
        mesh.dispose();
      }
      feed.groups = [];
    },

    meshOf(group, opacity) {
      const Material = group.shape === "sphere" ? THREE.MeshPhongMaterial : THREE.MeshLambertMaterial;
      const material = new Material({ transparent: opacity < 1, opacity, depthWrite: opacity === 1 || opacity === group.opacity });
      if (opacity === 1) material.onBeforeCompile = occluded;
      const mesh = new THREE.InstancedMesh(SHAPES[group.shape](group.count > MANY), material, group.count);
      mesh.frustumCulled = false;
      mesh.castShadow = !group.fixed && opacity === 1;
      mesh.receiveShadow = true;
      mesh.userData = group;
      for (let k = 0; k < group.count; k++) mesh.setColorAt(k, PLAIN); // so that its program knows of colors at once
      mesh.count = 0; // until its first frame
      this.scene.add(mesh);
      return { mesh, fixed: !!group.fixed };
    },

    outline(outline) {
      if (!this.renderer) return;
      const same = this.outlined && this.outlined.middles.length === outline.middles.length;
      this.outlined = outline;
      this.image.style.display = "none";
      this.frame = null;
      this.clear(this);
      for (const group of outline.groups) {
        const made = this.meshOf(group, group.opacity);
        this.groups.push(made);
        if (group.fixed) this.place(made.mesh, Float32Array.from(group.fixed), 0);
      }
      if (!same) {
        this.moved = false;
        this.fit();
      }
    },

    place(mesh, numbers, from) {
      const count = mesh.userData.count;
      const matrix = new THREE.Matrix4(), position = new THREE.Vector3(), size = new THREE.Vector3();
      const turn = new THREE.Quaternion(), color = new THREE.Color();
      for (let k = 0, at = from; k < count; k++, at += NUMBERS) {
        position.fromArray(numbers, at);
        turn.fromArray(numbers, at + 3);
        size.fromArray(numbers, at + 7);
        if (this.marked?.number === k && this.marked.groups.includes(mesh.userData.name)) size.multiplyScalar(1.3);
        mesh.setMatrixAt(k, matrix.compose(position, turn, size));
        mesh.setColorAt(k, color.setHex(mesh.userData.tint ?? numbers[at + 10]));
      }
      mesh.count = count;
      mesh.instanceMatrix.needsUpdate = mesh.instanceColor.needsUpdate = true;
      mesh.boundingSphere = null; // picking computes it anew
    },

    // Looks at all areas, or at one, from the front, until the person turns the view; a double click looks so again.
    fit() {
      if (!this.outlined || !this.camera) return;
      const { half, elevation, heights, middles } = this.outlined;
      const chosen = this.area == null || this.area >= middles.length ? middles : [middles[this.area]];
      const low = new THREE.Vector3(Infinity, heights[0], Infinity), high = new THREE.Vector3(-Infinity, heights[1], -Infinity);
      for (const [x, , z] of chosen) {
        low.x = Math.min(low.x, x - half[0]), low.z = Math.min(low.z, z - half[2]);
        high.x = Math.max(high.x, x + half[0]), high.z = Math.max(high.z, z + half[2]);
      }
      const middle = low.clone().add(high).multiplyScalar(0.5);
      const angle = (elevation * Math.PI) / 180;
      const back = new THREE.Vector3(0, Math.sin(angle), Math.cos(angle));
      const right = new THREE.Vector3(1, 0, 0), up = new THREE.Vector3().crossVectors(back, right);
      const tall = Math.tan((this.camera.fov * Math.PI) / 360), wide = tall * this.camera.aspect;
      const reach = high.clone().sub(low).length() / 2;
      const corners = Array.from({ length: 8 }, (_, k) => new THREE.Vector3(k & 1 ? high.x : low.x, k & 2 ? high.y : low.y, k & 4 ? high.z : low.z));
      const target = middle.clone();
      let distance = 3 * reach;
      for (let round = 0; round < 8; round++) {
        const seen = corners.map((corner) => corner.clone().sub(target)).map((corner) => [distance - corner.dot(back), corner.dot(right), corner.dot(up)]);
        const across = seen.map(([far, x]) => x / far / wide), upward = seen.map(([far, , y]) => y / far / tall);
        const [left, rightmost, bottom, top] = [Math.min(...across), Math.max(...across), Math.min(...upward), Math.max(...upward)];
        target.addScaledVector(up, ((top + bottom) / 2) * distance * tall);
        distance *= Math.max(rightmost - left, top - bottom) / 2 / 0.94;
      }
      this.camera.position.copy(target).addScaledVector(back, distance);
      this.camera.near = distance / 200;
      this.camera.far = distance + 60 * reach;
      this.camera.updateProjectionMatrix();
      this.controls.target.copy(target);
      this.controls.update();
      const side = 60 * reach, unit = Math.max(half[0], half[2]) / 2;
      this.ground.position.set(middle.x, low.y - reach / 400, middle.z);
      this.ground.scale.setScalar(side);
      this.ground.material.map?.repeat.setScalar((2 * side) / unit);
      this.sun.position.copy(middle).add(new THREE.Vector3(0.5, 1.6, 0.7).multiplyScalar(reach));
      this.sun.target.position.copy(middle);
      this.sun.castShadow = true;
      Object.assign(this.sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.01, far: 5 * reach });
      this.sun.shadow.camera.updateProjectionMatrix();
      this.sun.shadow.mapSize.set(2048, 2048);
      this.sun.shadow.normalBias = reach / 500;
      this.dirty = true;
    },

    focus(area) {
      this.area = area;
      this.moved = false;
      this.fit();
    },

    // Draws the newest frame, unless the last one is still being drawn: where WebGL runs in software, frames would queue up and grow stale.
    render() {
      const gl = this.renderer.getContext();
      if (this.fence) {
        if (gl.getSyncParameter(this.fence, gl.SYNC_STATUS) !== gl.SIGNALED) return;
        gl.deleteSync(this.fence);
        this.fence = null;
        this.wait.style.display = "none";
        this.spent = performance.now() - this.began;
        if (this.spent > 120) this.slow = (this.slow || 0) + 1;
        if (this.slow === 5) this.simplify();
      }
      const now = performance.now();
      if ((!this.frame && !this.haunting.frame && !this.dirty) || now - this.began < 2 * (this.spent > 25 ? this.spent : 0)) return;
      for (const feed of [this, this.haunting]) {
        const numbers = feed.frame && new Float32Array(feed.frame, 4);
        feed.frame = null;
        let at = 0;
        for (const { mesh, fixed } of numbers ? feed.groups : []) {
          if (fixed) continue;
          this.place(mesh, numbers, at);
          at += mesh.userData.count * NUMBERS;
        }
      }
      this.dirty = false;
      this.began = now;
      const far = this.camera.position.distanceTo(this.controls.target);
      Object.assign(this.scene.fog, { near: 1.1 * far, far: 5 * far });
      this.renderer.render(this.scene, this.camera);
      this.shown++;
      this.fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
      gl.flush();
    },

    simplify() {
      this.renderer.shadowMap.enabled = false;
      this.sun.castShadow = false;
      this.renderer.setPixelRatio(1);
      for (const { mesh } of this.groups) mesh.material.needsUpdate = true;
      this.resize();
    },

    // Shows one solid of some groups larger.
    highlight(groups, number) {
      this.marked = { groups, number };
      this.frame = this.newest;
    },

    record(seconds) {
      const recorder = new MediaRecorder(this.canvas.captureStream(30), { mimeType: "video/webm", videoBitsPerSecond: 4e6 });
      const parts = [];
      recorder.ondataavailable = (event) => parts.push(event.data);
      recorder.onstop = () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob(parts, { type: "video/webm" }));
        link.download = "recording.webm";
        link.click();
        URL.revokeObjectURL(link.href);
        this.note.textContent = "";
      };
      recorder.start();
      this.note.textContent = "Recording.";
      setTimeout(() => recorder.stop(), 1000 * seconds);
    },

    // Returns the rows of a group in the newest frame: position, quaternion, size and color of each solid.
    rows(name) {
      let at = 0;
      const numbers = this.newest ? new Float32Array(this.newest, 4) : [];
      for (const { mesh, fixed } of this.groups) {
        if (fixed) continue;
        const { count } = mesh.userData;
        const own = mesh.userData.name === name;
        if (own && at < numbers.length) return Array.from({ length: count }, (_, k) => [...numbers.slice(at + k * NUMBERS, at + (k + 1) * NUMBERS)]);
        at += count * NUMBERS;
      }
      return [];
    },

    pick(event) {
      const box = this.canvas.getBoundingClientRect();
      const at = new THREE.Vector2(((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2);
      const ray = new THREE.Raycaster();
      ray.setFromCamera(at, this.camera);
      const [hit] = ray.intersectObjects(this.groups.map(({ mesh }) => mesh), false);
      if (hit) this.$emit("pick", { group: hit.object.userData.name, number: hit.instanceId });
    },
  },
};
