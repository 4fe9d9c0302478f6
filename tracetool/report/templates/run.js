"use strict";
(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const element = (id) => document.getElementById(id);
  const redraws = [];

  // Light or dark: the reader's choice wins over the system's.
  element("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraws.forEach((draw) => draw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((draw) => draw()));
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    redraws.forEach((draw) => draw(true));
  });
  addEventListener("afterprint", () => redraws.forEach((draw) => draw()));

  function figure(value, digits) {
    if (value === null || value === undefined) return "";
    if (digits === 0) return value.toLocaleString("en-US");
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    if (size < -6 || size > 14) return value.toExponential(Math.max(digits - 2, 1));
    const places = Math.min(Math.max(digits - 1 - size, 0), 12);
    return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  }

  function kernelTable() {
    const table = element("kernel-table");
    const body = table.tBodies[0];
    const heads = [...table.querySelectorAll("th")];
    const columns = data.columns.map((c) => data.table[c.key]);
    const count = columns[0].length;
    const haystack = Array.from({ length: count }, (_, i) =>
      [0, 1, 2].map((c) => columns[c][i] || "").join("\n").toLowerCase());
    let order = Array.from({ length: count }, (_, i) => i);
    let sorted = data.columns.findIndex((c) => c.key === "energy_j");
    let descending = true;
    let found = order;
    let shown = 0;
    const step = 100;

    function append() {
      const part = document.createDocumentFragment();
      for (const i of found.slice(shown, shown + step)) {
        const row = document.createElement("tr");
        data.columns.forEach((c, k) => {
          const cell = document.createElement("td");
          if (c.digits !== null) cell.className = "n";
          cell.textContent = c.digits === null ? columns[k][i] ?? "" : figure(columns[k][i], c.digits);
          row.append(cell);
        });
        part.append(row);
      }
      body.append(part);
      shown = Math.min(shown + step, found.length);
      element("more").hidden = shown >= found.length;
      element("found").textContent = found.length === count
        ? `${shown.toLocaleString("en-US")} of ${count.toLocaleString("en-US")} shown`
        : `${found.length.toLocaleString("en-US")} of ${count.toLocaleString("en-US")} found`;
    }
    function refresh() {
      const words = element("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      found = words.length ? order.filter((i) => words.every((w) => haystack[i].includes(w))) : order;
      body.replaceChildren();
      shown = 0;
      append();
    }
    function sort(k) {
      descending = k === sorted ? !descending : data.columns[k].digits !== null;
      sorted = k;
      const values = columns[k];
      const sign = descending ? -1 : 1;
      order = order.slice().sort((a, b) => {
        const x = values[a], y = values[b];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
      heads.forEach((h, i) =>
        h.setAttribute("aria-sort", i !== k ? "none" : descending ? "descending" : "ascending"));
      refresh();
    }
    heads.forEach((h, k) => h.querySelector("button").addEventListener("click", () => sort(k)));
    element("find").addEventListener("input", refresh);
    element("more").addEventListener("click", append);
    refresh();
  }

  // Columns come as byte planes of 32-bit values, deflated.
  async function unpack(text, count) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      values[i] = planes[i] + planes[count + i] * 256 + planes[2 * count + i] * 65536
        + planes[3 * count + i] * 16777216;
    }
    return values;
  }

  async function timeline() {
    const canvas = element("tl");
    const packed = data.timeline;
    if (!canvas || !packed) return;
    const n = packed.count;
    const [start, length, signature, lane] = await Promise.all(
      ["start", "length", "signature", "lane"].map((k) => unpack(packed[k], n)));
    for (let i = 1; i < n; i++) start[i] += start[i - 1];
    let longest = 0;
    for (let i = 0; i < n; i++) longest = Math.max(longest, length[i]);
    const quantum = packed.quantum_ns / 1e6;
    const whole = packed.span_ns / packed.quantum_ns;
    const families = data.families.length;
    const rows = data.family.length;
    const familyOf = (s) => (s < rows ? data.family[s] : s - rows);
    const powerOf = (s) => (s < rows ? data.power[s] : null);
    const nameOf = (s) => (s < rows ? data.table.name[s] : `a small ${data.families[s - rows]} kernel`);
    let from = 0, to = whole;

    function firstAt(value) {
      let low = 0, high = n;
      while (low < high) { const mid = (low + high) >> 1; if (start[mid] < value) low = mid + 1; else high = mid; }
      return low;
    }
    const LEFT = 84, TOP = 26, POWER = 150, BAR = 16, GAP = 4;
    const lanes = packed.lanes.length;
    canvas.style.height = `${TOP + POWER + 24 + lanes * (BAR + GAP) + 26}px`;

    function ticks(low, high, most) {
      const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((s) => s * size).find((s) => s >= raw);
      const made = [];
      for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) made.push(v);
      return [made, Math.max(0, -Math.floor(Math.log10(step)))];
    }
    function modelled(width) {
      const busy = new Float64Array(width), energy = new Float64Array(width), known = new Float64Array(width);
      const scale = width / (to - from);
      for (let i = firstAt(from - longest); i < n && start[i] < to; i++) {
        const power = powerOf(signature[i]);
        let a = (start[i] - from) * scale;
        const b = Math.min((start[i] + length[i] - from) * scale, width);
        if (b <= 0) continue;
        a = Math.max(a, 0);
        for (let p = Math.floor(a); p < b; p++) {
          const part = Math.min(b, p + 1) - Math.max(a, p);
          busy[p] += part;
          if (power !== null) { energy[p] += part * power; known[p] += part; }
        }
      }
      return Float64Array.from(busy, (share, p) => {
        const active = Math.min(share, 1);
        return (known[p] > 0 ? energy[p] / known[p] : data.idle_w) * active + data.idle_w * (1 - active);
      });
    }
    function draw(print) {
      const style = getComputedStyle(document.documentElement);
      const colour = (name, printed) => (print ? printed : style.getPropertyValue(name).trim());
      const ratio = devicePixelRatio || 1;
      const width = canvas.clientWidth, height = canvas.clientHeight;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const g = canvas.getContext("2d");
      g.scale(ratio, ratio);
      g.fillStyle = colour("--back", "#fff");
      g.fillRect(0, 0, width, height);
      g.font = "12px system-ui, sans-serif";
      const room = width - LEFT - 8;
      const x = (t) => LEFT + (t - from) / (to - from) * room;
      const line = modelled(Math.max(1, Math.floor(room)));
      let most = line.reduce((a, b) => Math.max(a, b), 1);
      for (const p of packed.power) for (const w of p.power_w) most = Math.max(most, w);
      const y = (w) => TOP + POWER * (1 - w / (most * 1.05));
      const [levels] = ticks(0, most, 4);
      const [times, places] = ticks(from * quantum, to * quantum, Math.max(2, room / 130));
      g.textBaseline = "middle";
      for (const w of levels) {
        g.strokeStyle = colour("--line", "#bbb");
        g.beginPath(); g.moveTo(LEFT, y(w)); g.lineTo(width - 8, y(w)); g.stroke();
        g.fillStyle = colour("--soft", "#444");
        g.textAlign = "right";
        g.fillText(`${w} W`, LEFT - 6, y(w));
      }
      g.textAlign = "center";
      for (const t of times) {
        g.fillText(`${t.toFixed(places)} ms`, Math.min(x(t / quantum), width - 30), TOP + POWER + 12);
      }
      const base = TOP + POWER + 26;
      g.save();
      g.beginPath(); g.rect(LEFT, 0, room, height); g.clip();
      // Of launches too short to see, one a pixel is drawn: a frame costs pixels, not launches.
      const drawn = new Int32Array(lanes).fill(-1);
      for (let i = firstAt(from - longest), last = -1; i < n && start[i] < to; i++) {
        if (start[i] + length[i] < from) continue;
        const left = x(start[i]), wide = length[i] / (to - from) * room, pixel = Math.floor(left);
        if (wide < 1 && drawn[lane[i]] === pixel) continue;
        drawn[lane[i]] = pixel;
        const f = familyOf(signature[i]);
        if (f !== last) { g.fillStyle = data.colours[f]; last = f; }
        g.fillRect(left, base + lane[i] * (BAR + GAP), Math.max(wide, 0.6), BAR);
      }
      g.lineWidth = 1.5;
      g.strokeStyle = colour("--model", "#1d4ed8");
      g.beginPath();
      line.forEach((w, p) => (p ? g.lineTo(LEFT + p, y(w)) : g.moveTo(LEFT, y(w))));
      g.stroke();
      packed.power.forEach((p, which) => {
        g.strokeStyle = colour("--measured", "#c2410c");
        g.setLineDash(which ? [4, 3] : []);
        g.beginPath();
        p.time_ms.forEach((t, k) => (k ? g.lineTo(x(t / quantum), y(p.power_w[k])) : g.moveTo(x(t / quantum), y(p.power_w[k]))));
        g.stroke();
      });
      g.restore();
      g.setLineDash([]);
      g.textAlign = "right";
      g.fillStyle = colour("--soft", "#444");
      packed.lanes.forEach((name, k) =>
        g.fillText(name.length > 10 ? name.slice(0, 9) + "…" : name, LEFT - 6, base + k * (BAR + GAP) + BAR / 2));
      g.textAlign = "left";
      g.fillStyle = colour("--model", "#1d4ed8");
      g.fillText("from the kernels' joules", LEFT, 12);
      if (packed.power.length) {
        g.fillStyle = colour("--measured", "#c2410c");
        const fields = packed.power.map((p) => p.label).filter(Boolean).join(", ");
        g.fillText(width < 560 ? "measured" : `measured ${fields}`, LEFT + 170, 12);
      }
    }
    function say(text) {
      element("tl-said").textContent = text;
    }
    function describe() {
      let launches = 0;
      const time = new Float64Array(families);
      for (let i = firstAt(from - longest); i < n && start[i] < to; i++) {
        const inside = Math.min(start[i] + length[i], to) - Math.max(start[i], from);
        if (inside > 0) { launches++; time[familyOf(signature[i])] += inside; }
      }
      const top = time.indexOf(time.reduce((a, b) => Math.max(a, b), 0));
      say(`${figure(from * quantum, 4)} to ${figure(to * quantum, 4)} ms: ${launches.toLocaleString("en-US")} launches`
        + (launches ? `, most time in ${data.families[top]} (${(100 * time[top] / (to - from)).toFixed(0)} %)` : ""));
    }
    let pending = false;
    function view(a, b) {
      const least = Math.min(20, whole);
      const size = Math.min(Math.max(b - a, least), whole);
      from = Math.min(Math.max(a, 0), whole - size);
      to = from + size;
      if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; draw(); describe(); }); }
    }
    function zoom(factor, at = 0.5) {
      const centre = from + (to - from) * at, size = (to - from) * factor;
      view(centre - size * at, centre + size * (1 - at));
    }
    const pan = (share) => view(from + (to - from) * share, to + (to - from) * share);
    const moves = { "tl-in": () => zoom(0.5), "tl-out": () => zoom(2), "tl-left": () => pan(-0.25),
      "tl-right": () => pan(0.25), "tl-all": () => view(0, whole) };
    for (const [id, move] of Object.entries(moves)) element(id).addEventListener("click", move);
    const keys = { "+": "tl-in", "=": "tl-in", "-": "tl-out", "ArrowLeft": "tl-left", "ArrowRight": "tl-right", "0": "tl-all", "Home": "tl-all" };
    canvas.addEventListener("keydown", (e) => {
      if (keys[e.key] && !e.ctrlKey && !e.metaKey) { moves[keys[e.key]](); e.preventDefault(); }
    });
    const share = (e) => (e.offsetX - LEFT) / (canvas.clientWidth - LEFT - 8);
    canvas.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      zoom(e.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max(share(e), 0), 1));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (e) => { held = { x: e.clientX, from, to }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("dblclick", (e) => zoom(0.5, Math.min(Math.max(share(e), 0), 1)));
    canvas.addEventListener("pointermove", (e) => {
      if (held) {
        const moved = (held.x - e.clientX) / (canvas.clientWidth - LEFT - 8) * (held.to - held.from);
        view(held.from + moved, held.to + moved);
        return;
      }
      const at = from + share(e) * (to - from);
      const row = Math.floor((e.offsetY - TOP - POWER - 26) / (BAR + GAP));
      for (let i = Math.min(firstAt(at + 1), n) - 1; i >= 0 && start[i] > at - longest; i--) {
        if (lane[i] === row && start[i] + length[i] >= at) {
          const watts = powerOf(signature[i]);
          say(`${nameOf(signature[i])}: ${figure(length[i] * quantum * 1e3, 4)} µs from ${figure(start[i] * quantum, 6)} ms`
            + (watts === null ? "" : `, ${figure(watts, 3)} W`));
          return;
        }
      }
    });
    redraws.push(draw);
    new ResizeObserver(() => draw()).observe(canvas);
    view(0, whole);
    canvas.dataset.ready = "yes";
  }

  kernelTable();
  timeline();
})();
