// Search in pages that are opened from a folder. Browsers start no worker from a file, so the theme's runs in a hidden
// frame: what it asks of a worker is given to the frame's window. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          Object.assign(script, {src: source, onload: resolve, onerror: reject});
          inside.document.body.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.ready = load(url);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
