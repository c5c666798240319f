// What is searched for is words: signs that lunr reads as commands (`--resume` excludes) are left out, and so are words that
// every page has, unless there are no others. Of a very short word, and of "not", no longer one is meant (not "notebook").
const COMMON = new Set(
  ("a an and are as at be by can do does for from has have how i in is it its more my of on or than that the to what when " +
    "where which why with you your").split(" "),
);
const QUERY = 2; // Material's type of a message that asks
// The site finds each word that begins as one of the query does, so endings are left out: "versions" finds "version".
const begun = (word) =>
  word.length < 5
    ? word
    : word.replace(/(?<!s|u|i)s$/, "").replace(/iz(ation|ed|ing|er|e)$/, "iz").replace(/^(differ)ence$/, "$1");
const cleaned = (message) => {
  if (message?.type !== QUERY || typeof message.data !== "string") return message;
  const words = message.data.toLowerCase().replace(/\bmlagents\b/g, "ml agents").split(/[^\p{L}\p{N}.]+|\.(?!\d)/u).filter(Boolean);
  const meant = words.filter((word) => !COMMON.has(word));
  const asked = (meant.length ? meant : words).map((word) => (/^([a-z0-9]{1,2}|not)$/.test(word) ? `${word}^1` : begun(word)));
  return { ...message, data: asked.join(" ") };
};
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...more) {
  return post.call(this, cleaned(message), ...more);
};

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
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data: cleaned(data) })));
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
