(() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const element = (id) => document.getElementById(id);

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
    const searched = ["name", "family", "operator"].map((key) => data.table[key]);
    const haystack = Array.from({ length: count }, (_, i) =>
      searched.map((column) => column[i] || "").join("\n").toLowerCase());
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
    const packed = data.timeline;
    if (!packed || !charts.has("chart-timeline")) return;
    const n = packed.count;
    const chart = await charts.get("chart-timeline");
    const [start, length, signature, lane] = await Promise.all(
      ["start", "length", "signature", "lane"].map((k) => unpack(packed[k], n)));
    for (let i = 1; i < n; i++) start[i] += start[i - 1];
    let longest = 0;
    for (let i = 0; i < n; i++) longest = Math.max(longest, length[i]);
    const quantum = packed.quantum_ns / 1e6; // of one step, in ms
    const whole = packed.span_ns / packed.quantum_ns;
    const families = data.families.length;
    const rows = data.family.length;
    const familyOf = (s) => (s < rows ? data.family[s] : s - rows);
    const powerOf = (s) => (s < rows ? data.power[s] : null);
    const nameOf = (s) => (s < rows ? data.table.name[s] : `a small ${data.families[s - rows]} kernel`);
    const range = chart.named("tl-range");
    const curves = await Promise.all(packed.model.map(async (part) => {
      const [length, tenths] = await Promise.all([unpack(part.length, part.count), unpack(part.power, part.count)]);
      const edge = new Float64Array(part.count + 1);
      for (let i = 0; i < part.count; i++) edge[i + 1] = edge[i] + length[i];
      return { edge, power: tenths.map((w) => w / 10) };
    }));

    function firstAt(value) {
      let low = 0, high = n;
      while (low < high) { const mid = (low + high) >> 1; if (start[mid] < value) low = mid + 1; else high = mid; }
      return low;
    }
    // Mean predicted power of one GPU, per pixel.
    function modeled(curve, from, to, width) {
      const { edge, power } = curve;
      const drawn = new Float64Array(width), covered = new Float64Array(width);
      const scale = width / (to - from);
      let low = 0, high = power.length;
      while (low < high) { const mid = (low + high) >> 1; if (edge[mid + 1] <= from) low = mid + 1; else high = mid; }
      for (let i = low; i < power.length && edge[i] < to; i++) {
        const a = Math.max((edge[i] - from) * scale, 0);
        const b = Math.min((edge[i + 1] - from) * scale, width);
        for (let p = Math.floor(a); p < b; p++) {
          const part = Math.min(b, p + 1) - Math.max(a, p);
          drawn[p] += part * power[i];
          covered[p] += part;
        }
      }
      return Array.from(drawn, (sum, p) => (covered[p] > 0 ? sum / covered[p] : null));
    }
    // Launches shorter than a pixel share one bar, of the family with the most of their time in that pixel.
    function bars(from, to, width) {
      const made = { left: [], right: [], lane: [], fill: [], name: [], said: [] };
      const pixel = (to - from) / width, cells = packed.lanes.length * width;
      const time = new Float64Array(cells * families);
      const left = new Float64Array(cells).fill(Infinity), right = new Float64Array(cells).fill(-Infinity);
      const count = new Uint32Array(cells), last = new Uint32Array(cells);
      const longer = [];
      const draw = (a, b, row, family, name, said) => {
        made.left.push(a * quantum);
        made.right.push(b * quantum);
        made.lane.push(packed.lanes[row]);
        made.fill.push(data.colors[family]);
        made.name.push(name);
        made.said.push(said);
      };
      const drawOne = (i) => {
        const power = powerOf(signature[i]);
        draw(start[i], start[i] + length[i], lane[i], familyOf(signature[i]), nameOf(signature[i]),
          `${figure(length[i] * quantum * 1e3, 4)} µs from ${figure(start[i] * quantum, 6)} ms`
          + (power === null ? "" : `, ${figure(power, 3)} W`));
      };
      for (let i = firstAt(from - longest); i < n && start[i] < to; i++) {
        const end = start[i] + length[i];
        if (end < from) continue;
        if (length[i] >= pixel) { longer.push(i); continue; }
        const one = Math.max(Math.floor((start[i] - from) / pixel), 0);
        const two = Math.min(Math.max(Math.floor((end - from) / pixel), one), width - 1);
        for (let p = one; p <= two; p++) {
          const a = Math.max(start[i], from + p * pixel), b = Math.min(end, from + (p + 1) * pixel);
          if (b <= a) continue;
          const cell = lane[i] * width + p;
          time[cell * families + familyOf(signature[i])] += b - a;
          left[cell] = Math.min(left[cell], a);
          right[cell] = Math.max(right[cell], b);
          count[cell]++;
          last[cell] = i;
        }
      }
      for (let cell = 0; cell < cells; cell++) {
        if (count[cell] === 1) drawOne(last[cell]);
        if (count[cell] < 2) continue;
        const shares = time.subarray(cell * families, (cell + 1) * families);
        const most = shares.reduce((top, t, f) => (t > shares[top] ? f : top), 0);
        const all = shares.reduce((sum, t) => sum + t, 0);
        draw(left[cell], right[cell], Math.floor(cell / width), most,
          `${count[cell].toLocaleString("en-US")} launches, most time in ${data.families[most]}`
          + ` (${(100 * shares[most] / all).toFixed(0)} % of it)`,
          `${figure(all * quantum * 1e3, 4)} µs of kernels from ${figure(left[cell] * quantum, 6)} ms`);
      }
      longer.forEach(drawOne);
      return made;
    }
    function describe(from, to) {
      let launches = 0;
      const time = new Float64Array(families);
      for (let i = firstAt(from - longest); i < n && start[i] < to; i++) {
        const within = Math.min(start[i] + length[i], to) - Math.max(start[i], from);
        if (within > 0) { launches++; time[familyOf(signature[i])] += within; }
      }
      const top = time.indexOf(time.reduce((a, b) => Math.max(a, b), 0));
      const all = time.reduce((a, b) => a + b, 0);
      element("tl-said").textContent =
        `${figure(from * quantum, 4)} to ${figure(to * quantum, 4)} ms: ${launches.toLocaleString("en-US")} launches`
        + (launches ? `, most time in ${data.families[top]} (${(100 * time[top] / all).toFixed(0)} % of their time)` : "");
    }
    function fill() {
      const from = Math.max(range.start / quantum, 0), to = Math.min(range.end / quantum, whole);
      const width = Math.max(chart.place.clientWidth - 106, 50);
      const step = (to - from) * quantum / width;
      curves.forEach((curve, i) => {
        const line = modeled(curve, from, to, width);
        chart.named(`tl-model-${i}`).data = { x: line.map((_, p) => from * quantum + (p + 0.5) * step), y: line };
      });
      chart.named("tl-bars").data = bars(from, to, width);
      describe(from, to);
    }
    let pending = false;
    function later() {
      if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; fill(); }); }
    }
    function view(a, b) {
      const all = whole * quantum;
      const size = Math.min(Math.max(b - a, 20 * quantum), all);
      const from = Math.min(Math.max(a, 0), all - size);
      range.setv({ start: from, end: from + size });
    }
    const zoom = (factor) => {
      const middle = (range.start + range.end) / 2, half = (range.end - range.start) / 2 * factor;
      view(middle - half, middle + half);
    };
    const pan = (share) => {
      const by = (range.end - range.start) * share;
      view(range.start + by, range.end + by);
    };
    const moves = { "tl-in": () => zoom(0.5), "tl-out": () => zoom(2), "tl-left": () => pan(-0.25),
      "tl-right": () => pan(0.25), "tl-all": () => view(0, whole * quantum) };
    for (const [id, move] of Object.entries(moves)) element(id).addEventListener("click", move);
    const keys = { "+": "tl-in", "=": "tl-in", "-": "tl-out", "ArrowLeft": "tl-left", "ArrowRight": "tl-right", "0": "tl-all", "Home": "tl-all" };
    chart.place.addEventListener("keydown", (e) => {
      if (keys[e.key] && !e.ctrlKey && !e.metaKey) { moves[keys[e.key]](); e.preventDefault(); }
    });
    range.change.connect(later);
    new ResizeObserver(later).observe(chart.place);
    fill();
    chart.place.dataset.ready = "yes";
  }

  kernelTable();
  timeline();
})();
