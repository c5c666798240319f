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

export default {
  template: `
    <div style="position:relative; overflow:hidden">
      <canvas style="position:absolute; inset:0; width:100%; height:100%; touch-action:none"></canvas>
      <img style="position:absolute; inset:0; width:100%; height:100%; object-fit:contain; display:none" alt="">
      <div style="position:absolute; left:10px; bottom:8px; font-size:12px; opacity:.75; pointer-events:none"></div>
      <div style="position:absolute; inset:0; display:flex; align-items:center; justify-content:center; pointer-events:none">
        Waiting for the first picture...</div>
    </div>`,
  props: { stream: String },

  mounted() {
    [this.canvas, this.image, this.note, this.wait] = this.$el.children;
    this.groups = [];
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
  },

  unmounted() {
    this.open = false;
    this.socket?.close();
    this.watcher?.disconnect();
    this.controls?.dispose();
    this.clear();
    this.renderer?.dispose();
  },

  watch: {
    stream() {
      this.socket?.close();
    },
  },

  methods: {
    build() {
      this.scene = new THREE.Scene();
      this.camera = new THREE.PerspectiveCamera(35, 1, 0.1, 5000);
      this.controls = new OrbitControls(this.camera, this.canvas);
      this.controls.maxPolarAngle = 0.49 * Math.PI;
      this.scene.add(new THREE.HemisphereLight(0xffffff, 0x9aa0a8, 2.1));
      this.sun = new THREE.DirectionalLight(0xffffff, 1.6);
      this.scene.add(this.sun, this.sun.target);
      this.renderer.shadowMap.enabled = true;
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

    clear() {
      for (const { mesh } of this.groups) {
        this.scene.remove(mesh);
        mesh.geometry.dispose();
        mesh.material.dispose();
        mesh.dispose();
      }
      this.groups = [];
    },

    outline(outline) {
      if (!this.renderer) return;
      const same = this.outlined && this.outlined.middles.length === outline.middles.length;
      this.outlined = outline;
      this.image.style.display = "none";
      this.frame = null;
      this.clear();
      for (const group of outline.groups) {
        const material = new THREE.MeshLambertMaterial({ transparent: group.opacity < 1, opacity: group.opacity });
        const mesh = new THREE.InstancedMesh(SHAPES[group.shape](group.count > MANY), material, group.count);
        mesh.frustumCulled = false;
        mesh.castShadow = !group.fixed && group.opacity === 1;
        mesh.receiveShadow = true;
        mesh.userData = group;
        this.scene.add(mesh);
        this.groups.push({ mesh, fixed: !!group.fixed });
        if (group.fixed) this.place(mesh, Float32Array.from(group.fixed), 0);
        else mesh.count = 0; // until its first frame
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
        mesh.setColorAt(k, color.setHex(numbers[at + 10]));
      }
      mesh.count = count;
      mesh.instanceMatrix.needsUpdate = mesh.instanceColor.needsUpdate = true;
      mesh.boundingSphere = null; // picking computes it anew
    },

    // Looks at all areas, or at one, from the front, until the person turns the view; a double click looks so again.
    fit() {
      if (!this.outlined || !this.camera) return;
      const { half, center, elevation, middles } = this.outlined;
      const chosen = this.area == null || this.area >= middles.length ? middles : [middles[this.area]];
      const low = new THREE.Vector3(Infinity, Infinity, Infinity), high = low.clone().negate();
      for (const [x, y, z] of chosen) {
        low.min(new THREE.Vector3(x - half[0], y - half[1], z - half[2]));
        high.max(new THREE.Vector3(x + half[0], y + half[1], z + half[2]));
      }
      const middle = low.clone().add(high).multiplyScalar(0.5).add(new THREE.Vector3(...center));
      const angle = (elevation * Math.PI) / 180;
      const back = new THREE.Vector3(0, Math.sin(angle), Math.cos(angle));
      const right = new THREE.Vector3(1, 0, 0), up = new THREE.Vector3().crossVectors(back, right);
      const tall = Math.tan((this.camera.fov * Math.PI) / 360), wide = tall * this.camera.aspect;
      let distance = 0;
      for (let k = 0; k < 8; k++) {
        const corner = new THREE.Vector3(k & 1 ? high.x : low.x, k & 2 ? high.y : low.y, k & 4 ? high.z : low.z).sub(middle);
        const near = corner.dot(back);
        distance = Math.max(distance, near + Math.abs(corner.dot(right)) / wide, near + Math.abs(corner.dot(up)) / tall);
      }
      distance *= 1.04;
      this.camera.position.copy(middle).addScaledVector(back, distance);
      this.camera.far = 4 * distance;
      this.camera.near = distance / 200;
      this.camera.updateProjectionMatrix();
      this.controls.target.copy(middle);
      this.controls.update();
      const reach = high.clone().sub(low).length() / 2;
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
      if ((!this.frame && !this.dirty) || now - this.began < 2 * (this.spent > 25 ? this.spent : 0)) return;
      if (this.frame) {
        const numbers = new Float32Array(this.frame, 4);
        let at = 0;
        for (const { mesh, fixed } of this.groups) {
          if (fixed) continue;
          this.place(mesh, numbers, at);
          at += mesh.userData.count * NUMBERS;
        }
        this.frame = null;
      }
      this.dirty = false;
      this.began = now;
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
