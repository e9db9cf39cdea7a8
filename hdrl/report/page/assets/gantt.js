// The schedule: one rectangle per item and block of units, on canvases that share one view. Unit 0 is at the bottom.
const GANTT_HUES = [212, 28, 160, 265, 190, 45, 340, 228];
const GANTT_MARGIN = { left: 64, right: 10, top: 8, bottom: 48 };
const GANTT_NAMES = 96; // room for the names of groups of units, right of the picture

class Gantt {
  constructor(root) {
    this.root = root;
    this.canvases = [...root.querySelectorAll("canvas")];
    this.note = root.querySelector(".gantt-note");
    this.selects = [...root.querySelectorAll("select.gantt-run")];
    this.colour = root.querySelector("select.gantt-colour");
    this.scale = root.querySelector(".scale");
    this.shown = [];
    this.view = null;
    this.drag = null;
    this.pointers = new Map();
    for (const select of this.selects) select.addEventListener("change", () => this.load());
    this.colour.addEventListener("change", () => this.draw());
    for (const button of root.querySelectorAll("button[data-zoom]")) {
      button.addEventListener("click", () => this.command(button.dataset.zoom));
    }
    this.canvases.forEach((canvas, index) => this.listen(canvas, index));
    new ResizeObserver(() => this.draw()).observe(root);
  }

  async load() {
    const wanted = this.selects.map((select) => select.value).filter((value) => value !== "");
    this.shown = await Promise.all(
      wanted.map(async (run) => {
        const about = model.schedules[run];
        const arrays = await unpack(`schedule-${run}`, about.arrays);
        return { about, ids: await unpackTexts(`schedule-${run}-ids`), ...arrays };
      }),
    );
    this.canvases.forEach((canvas, index) => {
      canvas.parentElement.hidden = index >= this.shown.length;
      if (index < this.shown.length) canvas.setAttribute("aria-label", this.describe(this.shown[index]));
    });
    this.full = { t0: Infinity, t1: -Infinity, c0: 0, c1: 1 };
    this.right = this.shown.some((one) => one.about.groups.length || one.about.parts.length) ? GANTT_NAMES : GANTT_MARGIN.right;
    for (const one of this.shown) {
      for (let i = 0; i < one.start.length; i++) {
        this.full.t0 = Math.min(this.full.t0, one.start[i]);
        this.full.t1 = Math.max(this.full.t1, one.end[i]);
      }
      this.full.c1 = Math.max(this.full.c1, one.about.n_units);
    }
    if (!(this.full.t1 > this.full.t0)) Object.assign(this.full, { t0: 0, t1: 1 });
    this.view = { ...this.full };
    this.tell("");
    this.draw();
  }

  describe({ about, start }) {
    const closed = about.closed ? ` Gaps of up to ${numberText(about.closed)} ${about.unit}s within a ${about.item} are closed.` : "";
    return `Gantt chart of ${about.name}: ${numberText(start.length)} ${about.item}s on ${numberText(about.n_units)} ${about.unit}s over time.${closed}`;
  }

  tell(text) {
    const closed = this.shown.some((one) => one.about.closed);
    const { item, unit } = this.shown[0].about;
    const hint = isTouch.matches ? `Pinch or use the buttons to zoom, tap a ${item} to read about it.` : `Drag to zoom, double-click to see all, point at a ${item} to read about it; keys: + − 0 and arrows.`;
    this.note.textContent = text || (closed ? `${hint} Small gaps between the ${unit}s of a ${item} are closed.` : hint);
  }

  colourOf(one) {
    const dark = isDark.matches;
    const light = dark ? 58 : 48;
    const kind = this.colour.value;
    if (kind === "item") return (job) => `hsl(${GANTT_HUES[(job * 5) % 8]} ${dark ? 35 : 42}% ${light + ((job * 7) % 3) * 7}%)`;
    const values = one[`number${kind}`];
    const scale = Math.log1p(this.top(kind));
    const ramp = this.ramp();
    return (job) => ramp[Math.round((ramp.length - 1) * Math.min(1, Math.log1p(values[job]) / scale))];
  }

  // The largest value among the runs that are shown: they share one scale.
  top(kind) {
    let top = 1;
    for (const one of this.shown) for (const value of one[`number${kind}`]) top = Math.max(top, value);
    return top;
  }

  // From pale blue (little) over violet to red (much): lightness alone tells it too.
  ramp() {
    const stops = isDark.matches
      ? [[64, 84, 112], [78, 124, 178], [140, 124, 206], [214, 112, 158], [255, 150, 120], [255, 214, 140]]
      : [[178, 198, 220], [110, 158, 205], [104, 104, 186], [150, 66, 140], [190, 44, 74], [122, 20, 30]];
    const colours = [];
    for (let i = 0; i <= 60; i++) {
      const place = (i / 60) * (stops.length - 1);
      const at = Math.min(stops.length - 2, Math.floor(place));
      const mixed = stops[at].map((part, k) => Math.round(part + (stops[at + 1][k] - part) * (place - at)));
      colours.push(`rgb(${mixed.join(" ")})`);
    }
    return colours;
  }

  // What the colours mean, in words and as a strip.
  legend() {
    const kind = this.colour.value;
    this.scale.hidden = kind === "item";
    if (kind === "item") return;
    const { words, unit } = this.shown[0].about.numbers[kind];
    const top = this.top(kind);
    const [least, most, middle] = this.scale.querySelectorAll("span.value");
    const text = (value) => (unit === "s" ? durationText(value) : numberText(Math.round(value)));
    least.textContent = text(0);
    middle.textContent = text(Math.expm1(Math.log1p(top) / 2));
    most.textContent = unit === "s" ? text(top) : words.replace("{}", text(top));
    this.scale.querySelector(".strip").style.background = `linear-gradient(90deg, ${this.ramp().join(", ")})`;
  }

  draw() {
    if (this.view === null) return;
    this.legend();
    this.shown.forEach((one, index) => this.drawOne(this.canvases[index], one));
  }

  area(canvas) {
    return {
      x: GANTT_MARGIN.left,
      y: GANTT_MARGIN.top,
      w: Math.max(10, canvas.clientWidth - GANTT_MARGIN.left - this.right),
      h: Math.max(10, canvas.clientHeight - GANTT_MARGIN.top - GANTT_MARGIN.bottom),
    };
  }

  drawOne(canvas, one) {
    const ratio = Math.min(2, devicePixelRatio || 1);
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const area = this.area(canvas);
    this.axes(context, area, one.about);
    context.save();
    context.beginPath();
    context.rect(area.x, area.y, area.w, area.h);
    context.clip();
    this.bars(context, area, one);
    if (this.drag && this.drag.canvas === canvas) this.drawSelection(context);
    context.restore();
    this.names(context, area, one.about);
  }

  bars(context, area, one) {
    const { t0, t1, c0, c1 } = this.view;
    const perTime = area.w / (t1 - t0);
    const perCore = area.h / (c1 - c0);
    const colour = this.colourOf(one);
    let last = -1;
    for (let i = 0; i < one.item.length; i++) {
      const job = one.item[i];
      const first = one.first[i];
      if (one.end[job] < t0 || one.start[job] > t1 || first > c1 || first + one.n[i] < c0) continue;
      if (job !== last) {
        context.fillStyle = colour(job);
        last = job;
      }
      const x = area.x + (one.start[job] - t0) * perTime;
      const y = area.y + (c1 - first - one.n[i]) * perCore;
      const w = Math.max(0.35, (one.end[job] - one.start[job]) * perTime);
      const h = Math.max(0.35, one.n[i] * perCore);
      // A thin gap between neighbours where there is room for it.
      context.fillRect(x, y, w > 4 ? w - 0.7 : w, h > 4 ? h - 0.7 : h);
    }
  }

  axes(context, area, { unit }) {
    const { t0, t1, c0, c1 } = this.view;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = themed("--faint");
    context.strokeStyle = themed("--line");
    context.lineWidth = 1;
    context.beginPath();
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of niceTicks(t0, t1, Math.max(3, area.w / 110))) {
      const x = area.x + ((tick - t0) / (t1 - t0)) * area.w;
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h + 4);
      context.fillText(tickText(tick, t1 - t0), Math.min(x, area.x + area.w - 12), area.y + area.h + 8);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of niceTicks(c0, c1, Math.max(3, area.h / 50), 1)) {
      const y = area.y + ((c1 - tick) / (c1 - c0)) * area.h;
      context.moveTo(area.x - 4, y);
      context.lineTo(area.x + area.w, y);
      context.fillText(tickText(tick, c1 - c0), area.x - 8, Math.max(area.y + 6, Math.min(y, area.y + area.h - 6)));
    }
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillStyle = themed("--text");
    context.fillText(`time (${model.time.unit})`, area.x + area.w / 2, area.y + area.h + 46);
    context.save();
    context.translate(14, area.y + area.h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(unit, 0, 0);
    context.restore();
    context.rect(area.x + 0.5, area.y + 0.5, area.w - 1, area.h - 1);
    context.stroke();
  }

  // Names of the groups of units in view, or of smaller parts where there is room for them.
  names(context, area, { groups, parts }) {
    const { c0, c1 } = this.view;
    const inView = (spans) => spans.filter(([, first, n]) => first < c1 && first + n > c0);
    const few = inView(parts);
    const spans = few.length && few.length <= area.h / 18 ? few : inView(groups);
    if (spans.length < 1) return;
    const height = area.h / (c1 - c0);
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    let free = Infinity;
    for (const [name, first, n] of spans) {
      const bottom = area.y + Math.min(area.h, (c1 - first) * height);
      const top = area.y + Math.max(0, (c1 - first - n) * height);
      context.strokeStyle = themed("--faint");
      context.beginPath();
      context.moveTo(area.x + area.w, top);
      context.lineTo(area.x + area.w + 6, top);
      context.moveTo(area.x + area.w, bottom);
      context.lineTo(area.x + area.w + 6, bottom);
      context.stroke();
      const middle = (top + bottom) / 2;
      if (free - middle < 15) continue;
      free = middle;
      context.fillStyle = themed("--faint");
      context.fillText(name, area.x + area.w + 9, middle, this.right - 11);
    }
  }

  drawSelection(context) {
    const { x0, y0, x1, y1 } = this.drag;
    context.fillStyle = themed("--select");
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  zoom(factor, time = (this.view.t0 + this.view.t1) / 2, core = (this.view.c0 + this.view.c1) / 2) {
    const { t0, t1, c0, c1 } = this.view;
    this.look(time - (time - t0) / factor, time + (t1 - time) / factor, core - (core - c0) / factor, core + (c1 - core) / factor);
  }

  look(t0, t1, c0, c1) {
    const full = this.full;
    const spanT = Math.max((full.t1 - full.t0) / 1e7, Math.min(t1 - t0, full.t1 - full.t0));
    const spanC = Math.max(1, Math.min(c1 - c0, full.c1 - full.c0));
    t0 = Math.min(Math.max(t0, full.t0), full.t1 - spanT);
    c0 = Math.min(Math.max(c0, full.c0), full.c1 - spanC);
    this.view = { t0, t1: t0 + spanT, c0, c1: c0 + spanC };
    this.root.dataset.view = Object.values(this.view).join(" ");
    requestAnimationFrame(() => this.draw());
  }

  command(what) {
    const { t0, t1, c0, c1 } = this.view;
    const stepT = (t1 - t0) / 4;
    const stepC = (c1 - c0) / 4;
    const moves = { left: [-stepT, 0], right: [stepT, 0], up: [0, stepC], down: [0, -stepC] };
    if (what === "in") this.zoom(1.6);
    else if (what === "out") this.zoom(1 / 1.6);
    else if (what === "all") this.look(this.full.t0, this.full.t1, this.full.c0, this.full.c1);
    else this.look(t0 + moves[what][0], t1 + moves[what][0], c0 + moves[what][1], c1 + moves[what][1]);
  }

  place(canvas, event) {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  at(canvas, { x, y }) {
    const area = this.area(canvas);
    const { t0, t1, c0, c1 } = this.view;
    return { time: t0 + ((x - area.x) / area.w) * (t1 - t0), core: c1 - ((y - area.y) / area.h) * (c1 - c0) };
  }

  listen(canvas, index) {
    canvas.addEventListener("keydown", (event) => {
      const keys = { "+": "in", "=": "in", "-": "out", 0: "all", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
      if (!(event.key in keys) || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.command(keys[event.key]);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { time, core } = this.at(canvas, this.place(canvas, event));
      this.zoom(Math.exp(-event.deltaY / 300), time, core);
    }, { passive: false });
    canvas.addEventListener("dblclick", () => this.command("all"));
    canvas.addEventListener("pointerdown", (event) => this.down(canvas, event));
    canvas.addEventListener("pointermove", (event) => this.move(canvas, index, event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(canvas, index, event));
  }

  down(canvas, event) {
    const place = this.place(canvas, event);
    this.pointers.set(event.pointerId, place);
    if (event.pointerType === "mouse" && event.button === 0) {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { canvas, x0: place.x, y0: place.y, x1: place.x, y1: place.y };
    }
  }

  move(canvas, index, event) {
    const place = this.place(canvas, event);
    const before = this.pointers.get(event.pointerId);
    if (this.drag) {
      Object.assign(this.drag, { x1: place.x, y1: place.y });
      requestAnimationFrame(() => this.draw());
    } else if (before && event.pointerType !== "mouse") {
      this.touch(canvas, event.pointerId, before, place);
    } else {
      this.readJob(canvas, index, place);
    }
    if (before) this.pointers.set(event.pointerId, place);
  }

  // One finger moves along the time, two zoom; the page still scrolls up and down.
  touch(canvas, id, before, place) {
    const area = this.area(canvas);
    const { t0, t1, c0, c1 } = this.view;
    const others = [...this.pointers].filter(([key]) => key !== id).map(([, value]) => value);
    if (others.length === 1) {
      const old = Math.hypot(before.x - others[0].x, before.y - others[0].y);
      const now = Math.hypot(place.x - others[0].x, place.y - others[0].y);
      const middle = { x: (place.x + others[0].x) / 2, y: (place.y + others[0].y) / 2 };
      const { time, core } = this.at(canvas, middle);
      if (old > 10) this.zoom(now / old, time, core);
    } else if (!others.length) {
      const shift = ((before.x - place.x) / area.w) * (t1 - t0);
      this.look(t0 + shift, t1 + shift, c0, c1);
    }
  }

  up(canvas, index, event) {
    const drag = this.drag;
    this.pointers.delete(event.pointerId);
    this.drag = null;
    if (drag && Math.abs(drag.x1 - drag.x0) > 5 && Math.abs(drag.y1 - drag.y0) > 5) {
      const from = this.at(canvas, { x: Math.min(drag.x0, drag.x1), y: Math.min(drag.y0, drag.y1) });
      const to = this.at(canvas, { x: Math.max(drag.x0, drag.x1), y: Math.max(drag.y0, drag.y1) });
      this.look(from.time, to.time, to.core, from.core);
    } else {
      this.draw();
      this.readJob(canvas, index, this.place(canvas, event));
    }
  }

  readJob(canvas, index, place) {
    const one = this.shown[index];
    if (!one) return;
    const { time, core } = this.at(canvas, place);
    for (let i = one.item.length - 1; i >= 0; i--) {
      const job = one.item[i];
      if (one.start[job] <= time && time <= one.end[job] && one.first[i] <= core && core < one.first[i] + one.n[i]) {
        const ran = durationText((one.end[job] - one.start[job]) * model.time.seconds);
        const start = `${numberText(one.start[job])} ${model.time.unit}`;
        const numbers = one.about.numbers.map(({ words, unit }, k) => {
          const value = one[`number${k}`][job];
          return words.replace("{}", unit === "s" ? durationText(value) : numberText(value));
        });
        const where = one.about.parts.find(([, first, n]) => first <= core && core < first + n);
        const word = one.about.item[0].toUpperCase() + one.about.item.slice(1);
        this.tell(`${word} ${one.ids[job]}${where ? ` (here on ${where[0]})` : ""}: ${numbers.join(", ")}, started at ${start}, ran ${ran}.`);
        return;
      }
    }
    this.tell("");
  }
}

function niceTicks(low, high, most, least = 0) {
  const rough = Math.max(least, (high - low) / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(tick);
  return ticks;
}

function tickText(value, span) {
  const digits = Math.max(0, Math.min(6, Math.ceil(1 - Math.log10(span / 5))));
  return (Math.abs(value) < 1e-12 ? 0 : value).toLocaleString("en-US", { maximumFractionDigits: digits });
}
