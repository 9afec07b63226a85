// The search runs in a worker, and browsers start none from a page that was opened from the disk. There, an empty frame
// does the work: it has the page's origin, and a script in it sees what a worker would see.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this._frame = frame
      this._inside = frame.contentWindow
      this._inside.postMessage = data => this._hear(data)
      this._inside.importScripts = (...scripts) => Promise.all(scripts.map(name => this._run(name)))
      this._ready = this._run(script)
    }

    postMessage(data) {
      this._ready.then(() => this._inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this._frame.remove()
    }

    _run(name) {
      return new Promise((resolve, reject) => {
        const element = this._inside.document.createElement("script")
        element.src = name
        element.onload = resolve
        element.onerror = reject
        this._inside.document.body.append(element)
      })
    }

    _hear(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
  }
}
