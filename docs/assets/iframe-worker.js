// Search from pages that were opened from the disk. Browsers start no worker for a file:// page, so the worker's script
// runs in a hidden frame of its own instead. Pages from a server keep their workers.
if (location.protocol === "file:") {
  const later = (work) => setTimeout(work, 0); // messages between workers never arrive in the middle of other work
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      // What the worker posts goes to whoever made it, not to its own window; messages are copies, as between workers.
      inside.postMessage = (data) => later(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      });
      this.ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.appendChild(script);
      });
    }
    postMessage(data) {
      const message = new MessageEvent("message", { data: structuredClone(data) });
      this.ready.then(() => later(() => this.frame.contentWindow.dispatchEvent(message)));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
