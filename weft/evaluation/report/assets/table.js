/* Tables of any length: one page of rows in the document, sorted and filtered in memory.

   weftTable(host, data): data = {headers, rows, columns: [{texts, code} | {values}]}, where code (u32)
   and values (f64) are base64 and texts lists every different text once. */
(function () {
  "use strict";
  const { decode, make: element } = window.weft;
  const make = (tag, parent, text) => element(tag, parent, "", text);
  const PAGE = 50;

  class BigTable {
    constructor(host, data) {
      this.rows = data.rows;
      this.columns = data.columns.map((raw) => (raw.texts
        ? { texts: raw.texts, code: decode(raw.code, Uint32Array) }
        : { values: decode(raw.values, Float64Array) }));
      this.order = Uint32Array.from({ length: this.rows }, (_, i) => i);
      this.sorted = -1;
      this.sign = 1;
      this.page = 0;
      this.controls(host, data.headers);
      this.fill();
    }

    controls(host, headers) {
      const bar = make("div", host);
      bar.className = "table-tools";
      const label = make("label", bar, "rows with ");
      const input = make("input", label);
      input.type = "search";
      input.placeholder = "all of these words";
      input.addEventListener("input", () => this.filter(input.value));
      const button = (text, by, name) => {
        const found = make("button", bar, text);
        found.type = "button";
        found.setAttribute("aria-label", name);
        found.addEventListener("click", () => { this.page += by; this.fill(); });
        return found;
      };
      this.back = button("←", -1, "Previous page");
      this.where = make("span", bar);
      this.where.setAttribute("aria-live", "polite");
      this.next = button("→", 1, "Next page");
      const scroll = make("div", host);
      scroll.className = "scroll";
      const table = make("table", scroll);
      const head = make("tr", make("thead", table));
      this.heads = headers.map((name, k) => {
        const cell = make("th", head);
        cell.scope = "col";
        if (!this.columns[k].texts) cell.className = "number";
        const sorter = make("button", cell, name);
        sorter.type = "button";
        sorter.addEventListener("click", () => this.sort(k));
        return cell;
      });
      this.body = make("tbody", table);
    }

    at(column, i) {
      return column.texts ? column.texts[column.code[i]] : column.values[i];
    }

    filter(words) {
      const wanted = words.toLowerCase().split(/\s+/).filter((word) => word);
      const hits = this.columns.map((column) => column.texts && column.texts.map((text) => {
        const low = text.toLowerCase();
        return wanted.map((word) => low.includes(word));
      }));
      const found = [];
      for (let i = 0; i < this.rows; i++) {
        const isHit = wanted.every((_, w) => this.columns.some((c, k) => hits[k] && hits[k][c.code[i]][w]));
        if (isHit) found.push(i);
      }
      this.order = Uint32Array.from(found);
      this.arrange();
    }

    sort(k) {
      this.sign = this.sorted === k ? -this.sign : 1;
      this.sorted = k;
      this.arrange();
    }

    arrange() {
      const column = this.columns[this.sorted];
      if (column) {
        const compare = column.texts
          ? (a, b) => column.texts[column.code[a]].localeCompare(column.texts[column.code[b]], "en", { numeric: true })
          : (a, b) => {
            const x = column.values[a], y = column.values[b];
            return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x - y;
          };
        this.order = this.order.slice().sort((a, b) => this.sign * compare(a, b) || a - b);
        this.heads.forEach((head, k) => {
          head.setAttribute("aria-sort", k !== this.sorted ? "none" : this.sign > 0 ? "ascending" : "descending");
        });
      }
      this.page = 0;
      this.fill();
    }

    fill() {
      const pages = Math.max(1, Math.ceil(this.order.length / PAGE));
      this.page = Math.min(Math.max(this.page, 0), pages - 1);
      const rows = document.createDocumentFragment();
      for (const i of this.order.subarray(this.page * PAGE, (this.page + 1) * PAGE)) {
        const line = make("tr", rows);
        for (const column of this.columns) {
          const value = this.at(column, i);
          const isNumber = typeof value === "number";
          const text = !isNumber ? value : Number.isNaN(value) ? "–" : String(Number(value.toPrecision(6)));
          const cell = make("td", line, text);
          if (isNumber) cell.className = "number";
        }
      }
      this.body.replaceChildren(rows);
      this.back.disabled = this.page === 0;
      this.next.disabled = this.page === pages - 1;
      const count = this.order.length.toLocaleString("en");
      this.where.textContent = " page " + (this.page + 1) + " of " + pages + ", " + count + " rows ";
    }
  }

  window.weftTable = function (host, data) { return new BigTable(host, data); };
  function all() {
    document.querySelectorAll("div.table-host:not([data-drawn])").forEach((host) => {
      host.dataset.drawn = "1";
      window.weftTable(host, JSON.parse(document.getElementById(host.dataset.source).textContent));
    });
  }

  /* Charts are painted first. */
  document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(all)));
})();
