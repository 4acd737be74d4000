// The search runs in a worker, and a browser starts none for a page that is opened from a disk.
// There it runs in a hidden frame instead, which behaves as one; the theme asks for the name.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      const load = (url) =>
        new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          script.onload = done;
          script.onerror = failed;
          script.src = url;
          inner.document.body.append(script);
        });
      inner.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());
      inner.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      };
      this.ready = load(address);
    }
    postMessage(data) {
      this.ready.then(() => {
        const inner = this.frame.contentWindow;
        inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
