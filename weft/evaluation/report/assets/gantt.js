/* A Gantt chart on canvas: several schedules below one another on one aligned time axis.

   weftGantt(host, data) draws into an element. data = {unit, kinds, span: [t0, t1] or null, panels: [{title, lanes, busy,
   bound, names, and columns as base64: lane (u16), low, high (f32), start, finish (f64), kind (u16),
   copy (u8), size (u32)}]}. No outside code; texts are only ever set as text. */
(function () {
  "use strict";

  const LIGHT = {
    back: "#ffffff", lane: "#f0f1f3", ink: "#1b1f24", soft: "#5d6670", grid: "#d5d9de", select: "#000000",
    kinds: ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c"],
  };
  const DARK = {
    back: "#14171b", lane: "#1f242a", ink: "#e8eaed", soft: "#a3abb5", grid: "#363d46", select: "#ffffff",
    kinds: ["#56b4e9", "#e69f00", "#14b88a", "#f0e442", "#3d8fd1", "#ec7a35", "#d48db6", "#9a9a9a"],
  };
  const WHITE_TEXT = [2, 4, 5];
  const AXIS = 26, RIGHT = 46, FONT = "12px system-ui, sans-serif";
  const darkMode = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];
  let isPrinting = false;

  function decode(text, Type) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Type(bytes.buffer);
  }

  function make(tag, parent, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  }

  function ticks(low, high, most) {
    const rough = (high - low) / most;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * (1 - 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-300; k++) found.push(k * step);
    return { step: step, values: found };
  }

  function shown(value, step) {
    const digits = step ? Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9))) : 3;
    return String(Number(value.toFixed(digits)));
  }

  class Panel {
    constructor(raw, host, chart) {
      this.lanes = raw.lanes;
      this.busy = raw.busy;
      this.bound = raw.bound;
      this.names = raw.names;
      this.title = raw.title;
      this.lane = decode(raw.lane, Uint16Array);
      this.low = decode(raw.low, Float32Array);
      this.high = decode(raw.high, Float32Array);
      this.start = decode(raw.start, Float64Array);
      this.finish = decode(raw.finish, Float64Array);
      this.kind = decode(raw.kind, Uint16Array);
      this.copy = decode(raw.copy, Uint8Array);
      this.size = decode(raw.size, Uint32Array);
      this.chart = chart;
      this.sort();
      make("p", host, "gantt-title", raw.title);
      this.canvas = make("canvas", host, "gantt");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-label",
        raw.title + ": " + this.start.length + " bars on " + this.lanes.length + " devices. Arrow keys move, " +
        "plus and minus zoom, 0 shows all, n and p go from bar to bar, up and down change the device.");
      this.laneHeight = Math.max(10, Math.min(26, 420 / this.lanes.length));
      this.height = this.lanes.length * this.laneHeight + AXIS;
    }

    /* Bars of every lane by start, and the longest bar of it: the range in view is then two searches. */
    sort() {
      const order = Array.from(this.start.keys());
      order.sort((a, b) => this.lane[a] - this.lane[b] || this.start[a] - this.start[b]);
      this.order = Uint32Array.from(order);
      this.first = new Uint32Array(this.lanes.length + 1);
      this.longest = new Float64Array(this.lanes.length);
      for (const i of order) {
        this.first[this.lane[i] + 1]++;
        this.longest[this.lane[i]] = Math.max(this.longest[this.lane[i]], this.finish[i] - this.start[i]);
      }
      for (let k = 0; k < this.lanes.length; k++) this.first[k + 1] += this.first[k];
    }

    search(lane, time) {
      let low = this.first[lane], high = this.first[lane + 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.start[this.order[middle]] < time) low = middle + 1; else high = middle;
      }
      return low;
    }

    draw(theme, dpr, width, left, view, cursor) {
      const canvas = this.canvas, height = this.height;
      if (canvas.width !== Math.round(width * dpr) || canvas.height !== Math.round(height * dpr)) {
        canvas.width = Math.round(width * dpr);
        canvas.height = Math.round(height * dpr);
        canvas.style.aspectRatio = width + " / " + height;
      }
      const ctx = canvas.getContext("2d", { alpha: false });
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      ctx.fillStyle = theme.back;
      ctx.fillRect(0, 0, width, height);
      const right = width - RIGHT, bottom = height - AXIS;
      const scale = (right - left) / (view.t1 - view.t0);
      ctx.font = FONT;
      ctx.textBaseline = "middle";
      this.drawLanes(ctx, theme, left, right);
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, 0, right - left, bottom);
      ctx.clip();
      for (let lane = 0; lane < this.lanes.length; lane++) this.drawBars(ctx, theme, lane, left, scale, view);
      this.drawLine(ctx, theme.ink, left + (this.bound - view.t0) * scale, bottom, [6, 4], this.bound === null);
      this.drawLine(ctx, theme.soft, left + (cursor - view.t0) * scale, bottom, [2, 2], cursor === null);
      ctx.restore();
      this.drawAxis(ctx, theme, left, right, bottom, scale, view);
    }

    drawLanes(ctx, theme, left, right) {
      const h = this.laneHeight, every = Math.ceil(13 / h);
      for (let k = 0; k < this.lanes.length; k++) {
        ctx.fillStyle = theme.lane;
        ctx.fillRect(left, k * h + 1, right - left, h - 2);
        if (k % every) continue;
        ctx.fillStyle = theme.ink;
        ctx.textAlign = "right";
        ctx.fillText(this.lanes[k], left - 8, (k + 0.5) * h);
        ctx.textAlign = "left";
        ctx.fillStyle = theme.soft;
        ctx.fillText(Math.round(100 * this.busy[k]) + " %", right + 6, (k + 0.5) * h);
      }
    }

    drawBars(ctx, theme, lane, left, scale, view) {
      const h = this.laneHeight - 2, top = lane * this.laneHeight + 1, many = theme.kinds.length;
      let lastPixel = -1, lastLow = -1, colour = -1;
      for (let k = this.search(lane, view.t0 - this.longest[lane]); k < this.first[lane + 1]; k++) {
        const i = this.order[k];
        if (this.start[i] > view.t1) break;
        const x = left + (this.start[i] - view.t0) * scale;
        const w = (this.finish[i] - this.start[i]) * scale;
        if (x + w < left) continue;
        if (w < 1) {
          const pixel = Math.floor(x);
          if (pixel === lastPixel && this.low[i] === lastLow) continue;
          lastPixel = pixel;
          lastLow = this.low[i];
        }
        if (colour !== this.kind[i]) {
          colour = this.kind[i];
          ctx.fillStyle = theme.kinds[colour % many];
        }
        const y = top + this.low[i] * h, high = Math.max((this.high[i] - this.low[i]) * h - 0.5, 0.5);
        ctx.fillRect(x, y, w > 3 ? w - 0.7 : Math.max(w, 1), high);
        if (w > 5 && (this.copy[i] || colour >= many)) {
          this.drawHatch(ctx, theme, x, y, w - 0.7, high, this.copy[i] ? 4 : 7);
          ctx.fillStyle = theme.kinds[colour % many];
        }
        if (w > 16 && high >= 10) {
          this.drawLabel(ctx, i, x, y, w, high, left, many);
          ctx.fillStyle = theme.kinds[colour % many];
        }
        if (this === this.chart.chosenPanel && i === this.chart.chosenBar) {
          ctx.strokeStyle = theme.select;
          ctx.lineWidth = 2;
          ctx.strokeRect(x, y, Math.max(w, 2), high);
        }
      }
    }

    drawHatch(ctx, theme, x, y, w, h, gap) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, w, h);
      ctx.clip();
      ctx.strokeStyle = theme.back;
      ctx.lineWidth = 1.2;
      ctx.beginPath();
      for (let k = x - h; k < x + w; k += gap) { ctx.moveTo(k, y + h); ctx.lineTo(k + h, y); }
      ctx.stroke();
      ctx.restore();
    }

    drawLabel(ctx, i, x, y, w, h, left, many) {
      const text = this.nameOf(i, true), from = Math.max(x, left);
      if (text.length * 6.4 > x + w - from - 4) return;
      const isWhite = WHITE_TEXT.includes(this.kind[i] % many) && !this.copy[i];
      ctx.fillStyle = isWhite ? "#ffffff" : "#000000";
      ctx.textAlign = "center";
      ctx.fillText(text, (from + x + w) / 2, y + h / 2 + 0.5);
    }

    drawLine(ctx, colour, x, bottom, dash, isAbsent) {
      if (isAbsent) return;
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.2;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(x, 0);
      ctx.lineTo(x, bottom);
      ctx.stroke();
      ctx.setLineDash([]);
    }

    drawAxis(ctx, theme, left, right, bottom, scale, view) {
      const found = ticks(view.t0, view.t1, Math.max(2, (right - left) / 90));
      ctx.strokeStyle = theme.soft;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(left, bottom + 0.5);
      ctx.lineTo(right, bottom + 0.5);
      for (const t of found.values) {
        ctx.moveTo(left + (t - view.t0) * scale, bottom);
        ctx.lineTo(left + (t - view.t0) * scale, bottom + 4);
      }
      ctx.stroke();
      ctx.fillStyle = theme.soft;
      ctx.textAlign = "center";
      for (const t of found.values) {
        const x = left + (t - view.t0) * scale;
        if (x < right - 8) ctx.fillText(shown(t, found.step), x, bottom + 14);
      }
      ctx.textAlign = "left";
      ctx.fillText(this.chart.unit, right + 6, bottom + 14);
    }

    nameOf(i, isShort) {
      const kind = this.chart.kinds[this.kind[i]];
      const name = this.names.length ? this.names[i] : kind;
      const more = this.size[i] > 1 ? (isShort ? " ×" + this.size[i] : ", batch of " + this.size[i]) : "";
      const what = isShort || name === kind ? name : name + " (" + kind + ")";
      return what + more + (this.copy[i] && !isShort ? ", copy" : "");
    }

    describe(i) {
      const unit = this.chart.unit;
      const at = (t) => Number(t.toPrecision(7)) + (unit ? " " + unit : "");
      return this.nameOf(i, false) + " on " + this.lanes[this.lane[i]] + ": " + at(this.start[i]) + " to " +
        at(this.finish[i]) + ", " + at(this.finish[i] - this.start[i]) + " long";
    }

    find(lane, time, share, slack) {
      for (let k = this.search(lane, time - this.longest[lane] - slack); k < this.first[lane + 1]; k++) {
        const i = this.order[k];
        if (this.start[i] > time + slack) break;
        const isInside = this.finish[i] >= time - slack && this.low[i] <= share && share <= this.high[i];
        if (isInside) return i;
      }
      return -1;
    }
  }

  class Chart {
    constructor(host, data) {
      this.host = host;
      this.unit = data.unit;
      this.kinds = data.kinds;
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
      new ResizeObserver(() => this.later()).observe(host);
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
      const many = LIGHT.kinds.length;
      this.swatches = this.kinds.slice(0, 24).map((name, k) => {
        const item = make("li", list);
        const box = make("i", item, k >= many ? "hatched" : "");
        make("span", item, "", name);
        return { box: box, kind: k };
      });
      if (this.kinds.length > 24) make("li", list, "", "and " + (this.kinds.length - 24) + " more");
      if (this.panels.some((p) => p.copy.some((c) => c))) {
        const item = make("li", list);
        make("i", item, "hatched grey");
        make("span", item, "", "copy of a task");
      }
      if (this.panels.some((p) => p.bound !== null)) {
        const item = make("li", list);
        make("i", item, "dashed");
        make("span", item, "", "lower bound: no schedule ends earlier");
      }
      make("li", list, "", "right: share of the time the device is busy");
    }

    later() {
      if (this.isWaiting) return;
      this.isWaiting = true;
      requestAnimationFrame(() => { this.isWaiting = false; this.draw(); });
    }

    draw() {
      const theme = !isPrinting && darkMode.matches ? DARK : LIGHT;
      const width = Math.max(this.host.clientWidth, 320), dpr = Math.min(window.devicePixelRatio || 1, 3);
      const ctx = this.panels[0].canvas.getContext("2d", { alpha: false });
      ctx.font = FONT;
      let widest = 0;
      for (const p of this.panels) for (const name of p.lanes) widest = Math.max(widest, name.length);
      this.left = Math.min(16 + widest * 6.8, width / 3);
      this.right = width - RIGHT;
      for (const s of this.swatches) s.box.style.backgroundColor = theme.kinds[s.kind % theme.kinds.length];
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
      const place = isMine ? panel.order.indexOf(this.chosenBar) + by : panel.search(lane, this.view.t0);
      this.choose(panel, panel.order[Math.min(Math.max(place, from), to - 1)]);
    }

    laneOf(panel) {
      return this.chosenPanel === panel && this.chosenBar >= 0 ? panel.lane[this.chosenBar] : 0;
    }

    changeLane(panel, by) {
      const lane = Math.min(Math.max(this.laneOf(panel) + by, 0), panel.lanes.length - 1);
      const time = this.chosenBar >= 0 ? panel.start[this.chosenBar] : this.view.t0;
      if (panel.first[lane] === panel.first[lane + 1]) return;
      this.choose(panel, panel.order[Math.min(panel.search(lane, time), panel.first[lane + 1] - 1)]);
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
