"use strict";
// Zoom, hover, table and download of plots, the filter of findings. Reads only the page itself, writes text as text, and
// makes no requests.
(() => {
  const make = (name, text, parent) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const draw = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  const LEFT = 84, TOP = 12, ACROSS = 422, UP = 242, LAST = TOP + UP;

  function short(value, unit) {
    if (value === null || typeof value === "string") return value ?? "";
    const size = Math.abs(value), rate = { "TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3 }[unit];
    if (rate) return `${+(value / rate).toPrecision(4)}`;
    const scaled = (steps) => { for (const [step, name] of steps) if (size >= step) return `${+(value / step).toPrecision(4)}${name}`; };
    if (unit === "B") return scaled([[2 ** 40, " TiB"], [2 ** 30, " GiB"], [2 ** 20, " MiB"], [1024, " KiB"]]) ?? `${+value.toPrecision(4)}${value ? " B" : ""}`;
    if (unit === "B/s" || unit === "ops/s") return scaled([[1e12, " T"], [1e9, " G"], [1e6, " M"]]) ?? `${+value.toPrecision(4)}`;
    return size >= 1e4 ? scaled([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) : `${+value.toPrecision(4)}`;
  }

  class Scale {
    constructor([low, high, log, unit, named]) { this.log = log; this.unit = unit; this.named = named && new Map(named); this.ends = [this.to(low), this.to(high)]; }
    to(value) { return this.log ? Math.log(value) : value; }
    from(place) { return this.log ? Math.exp(place) : place; }
    share(value) { return (this.to(value) - this.ends[0]) / (this.ends[1] - this.ends[0]); }
    // Round numbers between two shares of the axis.
    ticks(first, last) {
      if (this.named) return [...this.named.keys()].filter((value) => this.share(value) >= first && this.share(value) <= last);
      const [a, b] = [first, last].map((share) => this.from(this.ends[0] + share * (this.ends[1] - this.ends[0])));
      const base = this.unit === "B" ? 2 : 10, made = [];
      for (const each of [base, 2]) {
        if (this.log && b / a >= each ** 2.5) {
          const low = Math.ceil(Math.log(a) / Math.log(each) - 1e-9), high = Math.floor(Math.log(b) / Math.log(each) + 1e-9);
          const step = Math.max(1, Math.ceil((high - low + 1) / 6));
          for (let n = low; n <= high; n += step) made.push(each ** n);
          return made;
        }
      }
      const raw = (b - a) / 6, power = 10 ** Math.floor(Math.log10(raw));
      const step = base === 2 ? 2 ** Math.ceil(Math.log2(raw)) : [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
      for (let n = Math.ceil(a / step - 1e-9); n * step <= b * (1 + 1e-12) && made.length < 40; n++) made.push(+(n * step).toPrecision(12));
      return made;
    }
  }

  class Plot {
    constructor(figure) {
      this.figure = figure;
      this.svg = figure.querySelector("svg.plot");
      this.data = JSON.parse(figure.querySelector("script").textContent);
      const [x, y] = JSON.parse(this.svg.dataset.scales);
      [this.x, this.y] = [new Scale(x), new Scale(y)];
      this.names = Object.keys(this.data.columns);
      this.points = [];
      for (const name of this.data.ys) {
        this.data.columns[name].forEach((value, row) => {
          const at = this.data.columns[this.data.x][row];
          if (typeof at !== "number" || typeof value !== "number") return;
          const px = this.x.share(at), py = this.y.share(value);
          if (Number.isFinite(px) && Number.isFinite(py)) this.points.push({ px, py, row, name });
        });
      }
      this.points.sort((a, b) => a.px - b.px || a.py - b.py);
      this.canvas = this.svg.parentElement;
      this.tip = make("div", "", this.canvas);
      this.tip.className = "tip";
      this.tip.hidden = true;
      this.mark = draw("circle", { r: 6, class: "here", visibility: "hidden" }, this.svg);
      this.box = draw("rect", { class: "picked", visibility: "hidden" }, this.svg);
      this.buttons();
      this.listen();
      this.reset();
    }

    buttons() {
      const row = make("div", "", this.figure);
      row.className = "buttons";
      const add = (text, title, act) => {
        const button = make("button", text, row);
        button.type = "button";
        button.setAttribute("aria-label", `${title}: ${this.data.title}`);
        button.addEventListener("click", act);
        return button;
      };
      add("+", "Zoom in", () => this.zoomBy(0.6));
      add("−", "Zoom out", () => this.zoomBy(1 / 0.6));
      add("Whole", "Show the whole plot", () => this.reset());
      this.tableButton = add("Table", "Table of the data", () => this.table());
      this.tableButton.setAttribute("aria-expanded", "false");
      add("CSV", "Download the data", () => this.download());
      this.status = make("span", "", row);
      this.status.className = "aside";
      this.status.setAttribute("aria-live", "polite");
    }

    listen() {
      const svg = this.svg;
      svg.setAttribute("tabindex", "0");
      svg.setAttribute("role", "application");
      svg.setAttribute("aria-roledescription", "plot");
      svg.setAttribute("aria-label", `${this.data.title}. Arrow keys go from point to point, plus and minus zoom, 0 shows all.`);
      svg.addEventListener("pointermove", (event) => this.moved(event));
      svg.addEventListener("pointerleave", () => this.hide());
      svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.pointerType === "touch") { this.moved(event); return; }
        this.from = this.place(event);
        svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointerup", (event) => this.released(event));
      svg.addEventListener("dblclick", () => this.reset());
      svg.addEventListener("blur", () => this.hide());
      svg.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 10, ArrowDown: -10, Home: -Infinity, End: Infinity }[event.key];
        if (step !== undefined) this.walk(step);
        else if (event.key === "+" || event.key === "=") this.zoomBy(0.6);
        else if (event.key === "-") this.zoomBy(1 / 0.6);
        else if (event.key === "0" || event.key === "Escape") this.reset();
        else return;
        event.preventDefault();
      });
    }

    place(event) {
      const area = this.svg.getBoundingClientRect();
      const x = (event.clientX - area.left) / area.width * 520, y = (event.clientY - area.top) / area.height * 300;
      return [Math.min(Math.max(x, LEFT), LEFT + ACROSS), Math.min(Math.max(y, TOP), LAST)];
    }

    // Pixels of a point in the visible part of the plot.
    pixels(point) {
      const { x0, x1, y0, y1 } = this.view;
      return [LEFT + ACROSS * (point.px - x0) / (x1 - x0), LAST - UP * (point.py - y0) / (y1 - y0)];
    }

    moved(event) {
      const [x, y] = this.place(event);
      if (this.from) {
        const [a, b] = this.from;
        for (const [key, value] of Object.entries({ x: Math.min(a, x), y: Math.min(b, y), width: Math.abs(a - x), height: Math.abs(b - y), visibility: "visible" })) this.box.setAttribute(key, value);
      }
      let best = null, nearest = 40 ** 2;
      for (const point of this.points) {
        const [px, py] = this.pixels(point), far = (px - x) ** 2 + (py - y) ** 2;
        if (far < nearest) { nearest = far; best = point; }
      }
      if (best) this.show(best); else this.hide();
    }

    released(event) {
      this.box.setAttribute("visibility", "hidden");
      if (!this.from) return;
      const [a, b] = this.from, [x, y] = this.place(event), { x0, x1, y0, y1 } = this.view;
      this.from = null;
      if (Math.abs(a - x) < 8 || Math.abs(b - y) < 8) return;
      const shareX = (at) => x0 + (x1 - x0) * (at - LEFT) / ACROSS, shareY = (at) => y0 + (y1 - y0) * (LAST - at) / UP;
      this.set(shareX(Math.min(a, x)), shareX(Math.max(a, x)), shareY(Math.max(b, y)), shareY(Math.min(b, y)));
    }

    lines(point) {
      const names = [this.data.x, point.name, ...this.names.filter((name) => name !== this.data.x && !this.data.ys.includes(name))];
      return names.map((name) => {
        const unit = this.data.units[name] ?? "", value = this.data.columns[name][point.row];
        return `${name.replaceAll("_", " ")}: ${short(value, unit)}${unit && typeof value === "number" && unit !== "B" ? ` ${unit === "B/s" ? "B/s" : unit}` : ""}`.replace(" T B/s", " TB/s").replace(" G B/s", " GB/s").replace(" M B/s", " MB/s");
      });
    }

    show(point, announce) {
      this.at = point;
      const [x, y] = this.pixels(point), lines = this.lines(point);
      this.mark.setAttribute("cx", x);
      this.mark.setAttribute("cy", y);
      this.mark.setAttribute("visibility", "visible");
      this.tip.textContent = lines.join("\n");
      this.tip.hidden = false;
      const share = x / 520 * this.canvas.clientWidth, wide = this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, share + 12 + wide > this.canvas.clientWidth ? share - 12 - wide : share + 12)}px`;
      this.tip.style.top = `${Math.max(0, y / 300 * this.canvas.clientHeight - this.tip.offsetHeight - 6)}px`;
      if (announce) this.status.textContent = lines.join(", ");
    }

    hide() { this.tip.hidden = true; this.mark.setAttribute("visibility", "hidden"); }

    walk(step) {
      const now = this.points.indexOf(this.at), last = this.points.length - 1;
      if (last < 0) return;
      this.show(this.points[Math.min(Math.max(now < 0 ? 0 : now + step, 0), last)], true);
    }

    zoomBy(share) {
      const { x0, x1, y0, y1 } = this.view, half = share / 2;
      const [mx, my] = this.at && !this.tip.hidden ? [this.at.px, this.at.py] : [(x0 + x1) / 2, (y0 + y1) / 2];
      const ends = (middle, a, b) => {
        const wide = Math.min(1, 2 * half * (b - a)), low = Math.min(Math.max(middle - wide / 2, 0), 1 - wide);
        return [low, low + wide];
      };
      this.set(...ends(mx, x0, x1), ...ends(my, y0, y1));
    }

    reset() { this.set(0, 1, 0, 1); }

    set(x0, x1, y0, y1) {
      if (x1 - x0 < 1e-4 || y1 - y0 < 1e-4) return;
      const isWhole = x0 === 0 && x1 === 1 && y0 === 0 && y1 === 1;
      this.view = { x0, x1, y0, y1 };
      const a = 1 / (x1 - x0), d = 1 / (y1 - y0);
      const e = LEFT - a * (LEFT + ACROSS * x0), f = LAST - d * (LAST - UP * y0);
      this.svg.querySelector(".marks").setAttribute("transform", `matrix(${a} 0 0 ${d} ${e} ${f})`);
      this.hide();
      if (isWhole && !this.zoomed) return; // as plotted
      this.zoomed = true;
      this.svg.classList.toggle("zoomed", !isWhole);
      const across = this.svg.querySelector(".axis.x"), up = this.svg.querySelector(".axis.y");
      across.replaceChildren();
      up.replaceChildren();
      for (const value of this.x.ticks(x0, x1)) {
        const at = LEFT + ACROSS * (this.x.share(value) - x0) / (x1 - x0);
        draw("line", { x1: at, x2: at, y1: TOP, y2: LAST }, across);
        const text = this.x.named?.get(value) ?? short(value, this.x.unit);
        draw("text", { x: Math.min(at, 520 - 4.7 * text.length), y: LAST + 17, "text-anchor": "middle" }, across).textContent = text;
      }
      for (const value of this.y.ticks(y0, y1)) {
        const at = LAST - UP * (this.y.share(value) - y0) / (y1 - y0);
        draw("line", { x1: LEFT, x2: LEFT + ACROSS, y1: at, y2: at }, up);
        draw("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, up).textContent = this.y.named?.get(value) ?? short(value, this.y.unit);
      }
    }

    table() {
      if (!this.tableRegion) {
        this.tableRegion = make("div", "", this.figure);
        this.tableRegion.className = "behind";
        this.tableRegion.tabIndex = 0;
        this.tableRegion.setAttribute("role", "region");
        this.tableRegion.setAttribute("aria-label", `Data of ${this.data.title}`);
        const table = make("table", "", this.tableRegion), head = make("tr", "", make("thead", "", table));
        for (const name of this.names) {
          const unit = this.data.units[name];
          make("th", name.replaceAll("_", " ") + (unit ? ` (${unit})` : ""), head).scope = "col";
        }
        const body = make("tbody", "", table);
        this.data.columns[this.names[0]].forEach((_, row) => {
          const line = make("tr", "", body);
          for (const name of this.names) {
            const value = this.data.columns[name][row], cell = make("td", value === null ? "" : `${value}`, line);
            if (typeof value === "number") cell.className = "number";
          }
        });
        this.tableRegion.hidden = true;
      }
      this.tableRegion.hidden = !this.tableRegion.hidden;
      this.tableButton.setAttribute("aria-expanded", String(!this.tableRegion.hidden));
    }

    download() {
      const rows = [this.names, ...this.data.columns[this.names[0]].map((_, row) => this.names.map((name) => this.data.columns[name][row]))];
      save(rows, `${this.data.title.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}.csv`);
    }
  }

  // An apostrophe before a text that a spreadsheet would take for a formula.
  const field = (value) => {
    if (typeof value === "number" || value === null) return `${value ?? ""}`;
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  function save(rows, name) {
    const url = URL.createObjectURL(new Blob([rows.map((row) => row.map(field).join(",") + "\n").join("")], { type: "text/csv" }));
    const link = make("a", "", document.body);
    link.href = url;
    link.download = name;
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // A plot gets its script when it comes into view: hundreds of them cost nothing until then.
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      new Plot(entry.target);
    }
  }, { rootMargin: "3000px" });  // well before it is in view: the tab key reaches only plots with their script
  document.querySelectorAll("figure.plot").forEach((figure) => observer.observe(figure));

  // Filter of the findings; buttons that open, close and download those shown.
  const tools = document.getElementById("tools"), findings = [...document.querySelectorAll(".finding")];
  if (tools && findings.length) {
    const texts = new Map(findings.map((each) => [each, `${each.closest(".element, .group").querySelector("h3, summary").textContent} ${each.firstElementChild.textContent}`.toLowerCase()]));
    const label = make("label", "Filter ", tools), input = make("input", "", label);
    input.type = "search";
    input.size = 16;
    const status = make("span", "", tools);
    status.setAttribute("role", "status");
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const each of findings) each.hidden = !words.every((word) => texts.get(each).includes(word));
        const left = findings.filter((each) => !each.hidden).length;
        status.textContent = words.length ? `${left} of ${findings.length} findings` : "";
        for (const group of document.querySelectorAll(".element, .element .group")) {
          const members = [...group.querySelectorAll(".finding")];
          group.hidden = words.length > 0 && members.length > 0 && members.every((each) => each.hidden);
          if (group.matches(".group") && members.length && words.length) group.open = !group.hidden;
          if (group.matches(".group") && !words.length) group.open = false;
        }
      }, 150);
    });
    const add = (text, act) => {
      const button = make("button", text, tools);
      button.type = "button";
      button.addEventListener("click", act);
    };
    add("Open all", () => findings.forEach((each) => { if (!each.hidden) each.open = true; }));
    add("Close all", () => findings.forEach((each) => { each.open = false; }));
    add("CSV", () => save([["element", "attribute", "value", "bracket", "confidence", "published", "verdict"], ...findings.map((each) => {
      const text = (name) => { const cell = each.querySelector(`.c-${name}`)?.cloneNode(true); cell?.querySelectorAll(".aside").forEach((aside) => aside.remove()); return cell?.textContent ?? ""; };
      const group = each.closest(".group, .element");
      return [(group.querySelector("h3 code, summary code") ?? group.querySelector("h3")).textContent, ...["attribute", "value", "bracket", "confidence", "published", "verdict"].map(text)];
    })], "findings.csv"));
  }

  // Print with everything open, and fold it again afterwards.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")].filter((each) => !each.hidden);
    for (const each of folded) each.open = true;
  });
  window.addEventListener("afterprint", () => { for (const each of folded) each.open = false; folded = []; });

  // A link into a folded part opens it.
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", follow);
  if (location.hash) follow();
})();
