/* One schedule on canvas: lanes, bars, bound and axis, for the view that gantt.js hands over. */
(function () {
  "use strict";

  const { decode, make } = window.weft;
  const LIGHT = {
    back: "#ffffff", lane: "#f0f1f3", ink: "#1b1f24", soft: "#5d6670", grid: "#d5d9de", select: "#000000",
    fill: "light", label: "light_ink",
  };
  const DARK = {
    back: "#14171b", lane: "#1f242a", ink: "#e8eaed", soft: "#a3abb5", grid: "#363d46", select: "#ffffff",
    fill: "dark", label: "dark_ink",
  };
  const AXIS = 26, RIGHT = 46, FONT = "12px system-ui, sans-serif";

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
      this.start = decode(raw.start, Float64Array);
      this.finish = decode(raw.finish, Float64Array);
      this.kind = decode(raw.kind, Uint16Array);
      const count = this.start.length;
      this.low = raw.low ? decode(raw.low, Float32Array) : new Float32Array(count);
      this.high = raw.high ? decode(raw.high, Float32Array) : new Float32Array(count).fill(1);
      this.copy = raw.copy ? decode(raw.copy, Uint8Array) : new Uint8Array(count);
      this.size = raw.size ? decode(raw.size, Uint32Array) : new Uint32Array(count).fill(1);
      this.chart = chart;
      this.index(raw.counts);
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

    /* Where every lane begins, and its longest bar: the range in view is then one search. */
    index(counts) {
      this.first = new Uint32Array(counts.length + 1);
      this.longest = new Float64Array(counts.length);
      this.lane = new Uint16Array(this.start.length);
      counts.forEach((count, k) => {
        const from = this.first[k], to = from + count;
        this.first[k + 1] = to;
        this.lane.fill(k, from, to);
        let longest = 0;
        for (let i = from; i < to; i++) longest = Math.max(longest, this.finish[i] - this.start[i]);
        this.longest[k] = longest;
      });
    }

    search(lane, time) {
      let low = this.first[lane], high = this.first[lane + 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.start[middle] < time) low = middle + 1; else high = middle;
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
      const h = this.laneHeight - 2, top = lane * this.laneHeight + 1;
      let lastPixel = -1, lastLow = -1, kind = -1, look = null;
      for (let i = this.search(lane, view.t0 - this.longest[lane]); i < this.first[lane + 1]; i++) {
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
        if (kind !== this.kind[i]) {
          kind = this.kind[i];
          look = this.chart.lookOf(kind);
          ctx.fillStyle = look[theme.fill];
        }
        const y = top + this.low[i] * h, high = Math.max((this.high[i] - this.low[i]) * h - 0.5, 0.5);
        ctx.fillRect(x, y, w > 3 ? w - 0.7 : Math.max(w, 1), high);
        if (w > 5 && (this.copy[i] || look.hatch)) this.drawHatch(ctx, theme, x, y, w - 0.7, high, look.hatch, this.copy[i]);
        if (w > 16 && high >= 10) {
          this.drawLabel(ctx, i, x, y, w, high, left, look[theme.fill], look[theme.label]);
          ctx.fillStyle = look[theme.fill];
        }
        if (this === this.chart.chosenPanel && i === this.chart.chosenBar) {
          ctx.strokeStyle = theme.select;
          ctx.lineWidth = 2;
          ctx.strokeRect(x, y, Math.max(w, 2), high);
        }
      }
    }

    /* Kinds: 1 dotted, 2 upright, 3 level; copies are slanted, whatever their kind. */
    drawHatch(ctx, theme, x, y, w, h, hatch, isCopy) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, w, h);
      ctx.clip();
      ctx.strokeStyle = theme.back;
      ctx.lineWidth = 1.2;
      ctx.setLineDash(hatch === 1 ? [1.4, 3.6] : []);
      ctx.beginPath();
      if (hatch === 1 || hatch === 3) for (let k = y + 2; k < y + h; k += 5) { ctx.moveTo(x, k); ctx.lineTo(x + w, k); }
      if (hatch === 2) for (let k = x + 2; k < x + w; k += 5) { ctx.moveTo(k, y); ctx.lineTo(k, y + h); }
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath();
      if (isCopy) for (let k = x - h; k < x + w; k += 4) { ctx.moveTo(k, y + h); ctx.lineTo(k + h, y); }
      ctx.stroke();
      ctx.restore();
    }

    drawLabel(ctx, i, x, y, w, h, left, fill, ink) {
      const text = this.nameOf(i, true), from = Math.max(x, left), centre = (from + x + w) / 2;
      if (text.length * 6.4 > x + w - from - 4) return;
      if (this.copy[i] || this.chart.lookOf(this.kind[i]).hatch) {
        const wide = ctx.measureText(text).width + 4;
        ctx.fillStyle = fill;
        ctx.fillRect(centre - wide / 2, y + h / 2 - 7, wide, 14);
      }
      ctx.fillStyle = ink;
      ctx.textAlign = "center";
      ctx.fillText(text, centre, y + h / 2 + 0.5);
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
        const text = shown(t, found.step);
        if (x + ctx.measureText(text).width / 2 <= right) ctx.fillText(text, x, bottom + 14);
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
      for (let i = this.search(lane, time - this.longest[lane] - slack); i < this.first[lane + 1]; i++) {
        if (this.start[i] > time + slack) break;
        const isInside = this.finish[i] >= time - slack && this.low[i] <= share && share <= this.high[i];
        if (isInside) return i;
      }
      return -1;
    }
  }

  window.weft.Panel = Panel;
  window.weft.themes = { light: LIGHT, dark: DARK };
  window.weft.RIGHT = RIGHT;
})();
