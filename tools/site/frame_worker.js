// SPDX-License-Identifier: Apache-2.0
// Browsers start no workers for pages that are opened from a folder. So the site's search, which is a worker, runs in a
// hidden frame there: the same messages, the same thread.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.queue = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>search</title>";
      this.frame.onload = () => {
        const inside = this.frame.contentWindow;
        inside.postMessage = data => this.answer(data);
        inside.importScripts = (...urls) => Promise.all(urls.map(one => this.load(one)));
        this.load(url).then(() => {
          this.started = true;
          this.queue.splice(0).forEach(data => this.postMessage(data));
        });
      };
      document.documentElement.appendChild(this.frame);
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, {src: url, onload: done, onerror: failed});
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    answer(data) {
      const event = new MessageEvent("message", {data});
      if (this.onmessage)
        this.onmessage(event);
      this.dispatchEvent(event);
    }

    postMessage(data) {
      if (!this.started)
        return this.queue.push(data);
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
