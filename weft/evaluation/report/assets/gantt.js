/* A Gantt chart on canvas: several schedules below one another on one aligned time axis.

   weftGantt(host, data) draws into an element. data = {unit, kinds, looks: [{light, light_ink, dark, dark_ink,
   hatch}] (kinds beyond the last share it), span: [t0, t1] or null, panels: [{title, lanes, busy,
   bound, names, counts, and columns as base64: low, high (f32), start, finish (f64), kind (u16), copy
   (u8), size (u32)}]}. Bars come by lane and start, counts says how many each lane has; an empty column
   stands for whole lanes, no copies, batches of one. Texts are only ever set as text. */
(function () {
  "use strict";

  const { make, Panel, RIGHT } = window.weft;
  const LIGHT = window.weft.themes.light, DARK = window.weft.themes.dark;
  const darkMode = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];
  let isPrinting = false;

  class Chart {
    constructor(host, data) {
      this.host = host;
      this.unit = data.unit;
      this.kinds = data.kinds;
      this.looks = data.looks;
      this.cursor = null;
      this.chosenPanel = null;
      this.chosenBar = -1;
      this.drawsDone = 0;
      this.toolbar();
      this.panels = data.panels.map((raw) => new Panel(raw, host, this));
      this.legend();
      this.tip = make("div", host, "gantt-tip");
      this.tip.hidden = true;
      this.live = make("p", host, "gantt-live");
      this.live.setAttribute("aria-live", "polite");
      this.extent(data.span);
      this.view = { t0: this.t0, t1: this.t1 };
      this.panels.forEach((panel) => this.listen(panel));
      new ResizeObserver(() => { if (host.clientWidth !== this.width) this.later(); }).observe(host);
      this.draw();
    }

    extent(span) {
      if (span) {
        [this.t0, this.t1] = span;
        return;
      }
      let low = Infinity, high = -Infinity;
      for (const p of this.panels) {
        for (const t of p.start) low = Math.min(low, t);
        for (const t of p.finish) high = Math.max(high, t);
        if (p.bound !== null) high = Math.max(high, p.bound);
      }
      this.t0 = Number.isFinite(low) ? low : 0;
      this.t1 = Number.isFinite(high) && high > this.t0 ? high : this.t0 + 1;
      this.t1 += 0.005 * (this.t1 - this.t0);
    }

    toolbar() {
      const bar = make("div", this.host, "gantt-tools");
      const button = (text, label, act) => {
        const found = make("button", bar, "", text);
        found.type = "button";
        found.title = label;
        found.setAttribute("aria-label", label);
        found.addEventListener("click", act);
      };
      button("+", "Zoom in", () => this.zoom(0.6));
      button("−", "Zoom out", () => this.zoom(1 / 0.6));
      button("←", "Earlier", () => this.pan(-0.25));
      button("→", "Later", () => this.pan(0.25));
      button("All", "Show the whole time", () => this.reset());
      make("span", bar, "hint", "drag to move, Ctrl + wheel to zoom; with the keyboard: arrows, + and −, 0, n and p");
    }

    legend() {
      const list = make("ul", this.host, "gantt-legend");
      const rest = this.kinds.length > this.looks.length ? this.looks.length - 1 : this.kinds.length;
      this.swatches = this.looks.map((look, k) => {
        const item = make("li", list);
        const box = make("i", item, "hatch-" + look.hatch);
        make("span", item, "", k < rest ? this.kinds[k] : this.kinds.length - rest + " more kinds");
        return { box: box, look: look };
      });
      if (this.panels.some((p) => p.copy.some((c) => c))) {
        const item = make("li", list);
        make("i", item, "copied grey");
        make("span", item, "", "copy of a task");
      }
      if (this.panels.some((p) => p.bound !== null)) {
        const item = make("li", list);
        make("i", item, "dashed");
        make("span", item, "", "lower bound: no schedule ends earlier");
      }
      make("li", list, "", "right: share of the time the device is busy");
    }

    lookOf(kind) { return this.looks[Math.min(kind, this.looks.length - 1)]; }

    later() {
      if (this.isWaiting) return;
      this.isWaiting = true;
      requestAnimationFrame(() => { this.isWaiting = false; this.draw(); });
    }

    draw() {
      const theme = !isPrinting && darkMode.matches ? DARK : LIGHT;
      this.width = this.host.clientWidth;
      const width = Math.max(this.width, 320), dpr = Math.min(window.devicePixelRatio || 1, 3);
      let widest = 0;
      for (const p of this.panels) for (const name of p.lanes) widest = Math.max(widest, name.length);
      this.left = Math.min(16 + widest * 6.8, width / 3);
      this.right = width - RIGHT;
      for (const s of this.swatches) s.box.style.backgroundColor = s.look[theme.fill];
      for (const panel of this.panels) panel.draw(theme, dpr, width, this.left, this.view, this.cursor);
      if (this.drawsDone++ === 0) {
        performance.mark("weft-gantt-drawn");
        requestAnimationFrame(() => {
          const after = new MessageChannel();
          after.port1.onmessage = () => performance.mark("weft-gantt-painted");
          after.port2.postMessage(0);
        });
      }
    }

    timeAt(x) {
      return this.view.t0 + (x - this.left) / (this.right - this.left) * (this.view.t1 - this.view.t0);
    }

    show(t0, t1) {
      const span = Math.min(Math.max(t1 - t0, (this.t1 - this.t0) * 1e-6), this.t1 - this.t0);
      const from = Math.min(Math.max(t0, this.t0), this.t1 - span);
      this.view = { t0: from, t1: from + span };
      this.later();
    }

    zoom(factor, about) {
      const centre = about === undefined ? (this.view.t0 + this.view.t1) / 2 : about;
      this.show(centre - (centre - this.view.t0) * factor, centre + (this.view.t1 - centre) * factor);
    }

    pan(share) {
      const by = share * (this.view.t1 - this.view.t0);
      this.show(this.view.t0 + by, this.view.t1 + by);
    }

    reset() { this.show(this.t0, this.t1); }

    listen(panel) {
      const canvas = panel.canvas;
      let dragged = null;
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
        event.preventDefault();
        const turn = event.deltaY || event.deltaX;
        this.zoom(Math.exp(Math.sign(turn) * Math.min(Math.abs(turn), 120) * 0.003), this.timeAt(event.offsetX));
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        dragged = { x: event.offsetX, t0: this.view.t0, t1: this.view.t1 };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointerup", () => { dragged = null; });
      canvas.addEventListener("pointermove", (event) => {
        if (dragged) {
          const by = (event.offsetX - dragged.x) / (this.right - this.left) * (dragged.t1 - dragged.t0);
          this.show(dragged.t0 - by, dragged.t1 - by);
        } else {
          this.point(panel, event.offsetX, event.offsetY);
        }
      });
      canvas.addEventListener("pointerleave", () => {
        this.cursor = null;
        this.tip.hidden = true;
        this.later();
      });
      canvas.addEventListener("keydown", (event) => this.key(panel, event));
    }

    point(panel, x, y) {
      const lane = Math.floor(y / panel.laneHeight);
      const isInside = lane >= 0 && lane < panel.lanes.length && x >= this.left && x <= this.right;
      this.cursor = isInside ? this.timeAt(x) : null;
      const slack = 1.5 / (this.right - this.left) * (this.view.t1 - this.view.t0);
      const share = (y - lane * panel.laneHeight - 1) / (panel.laneHeight - 2);
      const bar = isInside ? panel.find(lane, this.cursor, share, slack) : -1;
      this.tip.hidden = bar < 0;
      if (bar >= 0) this.showTip(panel, panel.describe(bar), x, y);
      this.later();
    }

    showTip(panel, text, x, y) {
      this.tip.textContent = text;
      const most = this.host.clientWidth - this.tip.offsetWidth - 4;
      this.tip.style.left = Math.max(0, Math.min(x + 12, most)) + "px";
      this.tip.style.top = panel.canvas.offsetTop + y + 16 + "px";
    }

    key(panel, event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const acts = {
        ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1),
        "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7),
        0: () => this.reset(), Home: () => this.reset(),
        n: () => this.step(panel, 1), p: () => this.step(panel, -1),
        ArrowDown: () => this.changeLane(panel, 1), ArrowUp: () => this.changeLane(panel, -1),
        Escape: () => this.choose(panel, -1),
      };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    }

    step(panel, by) {
      const lane = this.laneOf(panel);
      const from = panel.first[lane], to = panel.first[lane + 1];
      if (from === to) return;
      const isMine = this.chosenPanel === panel && this.chosenBar >= 0;
      const place = isMine ? this.chosenBar + by : panel.search(lane, this.view.t0);
      this.choose(panel, Math.min(Math.max(place, from), to - 1));
    }

    laneOf(panel) {
      return this.chosenPanel === panel && this.chosenBar >= 0 ? panel.lane[this.chosenBar] : 0;
    }

    changeLane(panel, by) {
      const lane = Math.min(Math.max(this.laneOf(panel) + by, 0), panel.lanes.length - 1);
      const time = this.chosenBar >= 0 ? panel.start[this.chosenBar] : this.view.t0;
      if (panel.first[lane] === panel.first[lane + 1]) return;
      this.choose(panel, Math.min(panel.search(lane, time), panel.first[lane + 1] - 1));
    }

    choose(panel, bar) {
      this.chosenPanel = panel;
      this.chosenBar = bar;
      this.live.textContent = bar < 0 ? "" : panel.describe(bar);
      if (bar >= 0) {
        const span = this.view.t1 - this.view.t0, start = panel.start[bar];
        if (start < this.view.t0 || panel.finish[bar] > this.view.t1) this.show(start - span / 3, start + (2 * span) / 3);
      }
      this.later();
    }
  }

  function redraw(printing) {
    isPrinting = printing;
    charts.forEach((chart) => chart.draw());
  }

  darkMode.addEventListener("change", () => redraw(isPrinting));
  window.addEventListener("beforeprint", () => redraw(true));
  window.addEventListener("afterprint", () => redraw(false));
  window.matchMedia("print").addEventListener("change", (event) => redraw(event.matches));

  window.weftGantt = function (host, data) {
    const chart = new Chart(host, data);
    charts.push(chart);
    return chart;
  };
  /* Draw every chart whose data block has been read so far and which is not drawn yet. */
  window.weftGantt.all = function () {
    document.querySelectorAll("div.gantt-host:not([data-drawn])").forEach((host) => {
      host.dataset.drawn = "1";
      window.weftGantt(host, JSON.parse(document.getElementById(host.dataset.source).textContent));
    });
  };
})();
