// Keys of the keyboard, a gamepad and on-screen buttons: reports which are pressed and released.
export default {
  template: `
    <div class="p-pad">
      <button v-for="button in buttons" :key="button.key" type="button" :data-key="button.key" :class="{held: held.has(button.key)}" :aria-pressed="held.has(button.key)"
        @pointerdown.prevent="hold(button.key, true, $event)" @pointerup.prevent="hold(button.key, false)"
        @pointercancel="hold(button.key, false)" @lostpointercapture="hold(button.key, false)" @contextmenu.prevent>
        <b>{{ button.shown }}</b><span>{{ button.name }}</span>
      </button>
    </div>`,
  props: { buttons: Array },
  data: () => ({ held: new Set() }),

  mounted() {
    this.keys = (event) => {
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const typing = event.target.closest?.("input, textarea, [contenteditable]");
      if (event.repeat || typing || event.ctrlKey || event.altKey || event.metaKey) return;
      // a control that has the focus keeps the keys that it knows itself; a click leaves none there, see `clicked`
      const control = event.target.closest?.("button, a, [role=slider], [role=option], [role=button]");
      if (control && !control.closest(".p-pad") && (key === " " || key === "Enter" || key.startsWith("Arrow"))) return;
      if (event.type === "keydown" && (key === " " || key.startsWith("Arrow"))) event.preventDefault(); // the page would scroll
      this.hold(key, event.type === "keydown");
    };
    this.clicked = (event) => {
      if (event.detail && event.target.closest?.("button")) document.activeElement?.blur(); // by a pointer: the keys are the game's
    };
    this.away = () => {
      if (document.hidden || event?.type === "blur") this.release();
    };
    window.addEventListener("keydown", this.keys);
    window.addEventListener("keyup", this.keys);
    window.addEventListener("click", this.clicked);
    window.addEventListener("blur", this.away);
    document.addEventListener("visibilitychange", this.away);
    this.poll = setInterval(() => this.gamepads(), 30);
    this.pad = new Set();
  },

  unmounted() {
    window.removeEventListener("keydown", this.keys);
    window.removeEventListener("keyup", this.keys);
    window.removeEventListener("click", this.clicked);
    window.removeEventListener("blur", this.away);
    document.removeEventListener("visibilitychange", this.away);
    clearInterval(this.poll);
  },

  methods: {
    hold(key, down, event) {
      event?.target.closest("button").setPointerCapture(event.pointerId);
      if (down === this.held.has(key)) return;
      down ? this.held.add(key) : this.held.delete(key);
      this.$emit("hold", { key, down });
    },

    release() {
      this.held.clear();
      this.pad.clear();
      this.$emit("hold", { key: "", down: false });
    },

    gamepads() {
      const now = new Set();
      for (const pad of navigator.getGamepads?.() || []) {
        if (!pad) continue;
        pad.buttons.forEach((button, number) => button.pressed && now.add(`pad:${number}`));
        const [x = 0, y = 0] = pad.axes;
        if (x < -0.5 || pad.buttons[14]?.pressed) now.add("pad:left");
        if (x > 0.5 || pad.buttons[15]?.pressed) now.add("pad:right");
        if (y < -0.5 || pad.buttons[12]?.pressed) now.add("pad:up");
        if (y > 0.5 || pad.buttons[13]?.pressed) now.add("pad:down");
      }
      for (const key of now) if (!this.pad.has(key)) this.hold(key, true);
      for (const key of this.pad) if (!now.has(key)) this.hold(key, false);
      this.pad = now;
    },
  },
};
