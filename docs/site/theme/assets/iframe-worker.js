// Search runs in a Worker, which a page opened from a folder may not start: there a hidden frame takes its place.
// (Material looks for this file by its name before it loads such a script from elsewhere, and its worker for IFrameWorker.)
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.#tell(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => urls.reduce((done, one) => done.then(() => load(inside, one)), Promise.resolve());
      this.ready = load(inside, url).then(() => inside);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
    #tell(event) {
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
  };
  const load = (inside, url) =>
    new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      script.onload = resolve;
      script.onerror = reject;
      inside.document.body.append(script);
    });
}
