// The page around the arithmetic: what is chosen, what is shown, what is drawn. Every number that
// is a figure of the model comes from model.js, which is generated; here it is only printed.
"use strict";
(() => {
  const $ = (id) => document.getElementById(`try-${id}`);
  const { chips, precisions, caches, models, operations, forms, refusals, row: ROW } = perfmodel;

  const DEFAULTS = {
    model: "llama-3.1-8b", chip: "h100-sxm", precision: "", kv: "", compute: "",
    phase: "decode", batch: 64, context: 4096, prompt: 2048,
  };
  const CHOICES = ["model", "chip", "precision", "kv", "compute"];
  const COUNTS = ["batch", "context", "prompt"];
  const KINDS = { // as the legend says them, in its order
    linear: "matrices", experts: "experts", attention: "attention", scan: "recurrence",
    embedding: "embedding", small: "small steps",
  };
  const LEAST_SHARE = 0.0005; // of the width of a bar: what is narrower is not drawn

  // -- the question ---------------------------------------------------------------------------

  /** The checkpoint's own formats where a precision is not asked for; else a preset's. */
  function formats(asked) {
    const model = models[asked.model];
    if (!asked.precision && model.released) return { ...model, ...model.released, fixed: true };
    const preset = asked.precision || model.preset || "bf16";
    const way = precisions[preset][asked.compute] || precisions[preset][""];
    const cache = caches[asked.kv];
    const bytes = cache ? { ...way.bytes, kv: cache.bytes } : way.bytes;
    const name = preset + (cache ? cache.suffix : "") + way.suffix;
    return { ...model, ...way, bytes, preset, name, fixed: false };
  }

  /** Why the library would refuse, in its words; empty where it would not. */
  function refusal(asked, chip, found, context) {
    const end = models[asked.model].positions;
    if (end && context > end.limit) return end.refusal.replace("{context}", context);
    for (const [, , part] of operations[found.operations]) {
      const format = found.computes[part] || part;
      if (!(format in chip.peaks)) {
        return refusals[chip.lacks[format]].replace("{chip}", chip.name)
          .replace("{format}", format).replace("{formats}", Object.keys(chip.peaks).join(", "));
      }
    }
    return "";
  }

  /** The figures of a step, and of the memory after it. Without a peak, times are NaN. */
  function evaluate(asked) {
    const chip = chips[asked.chip], found = formats(asked), decode = asked.phase === "decode";
    const [added, past] = decode ? [1, asked.context - 1] : [asked.prompt, 0];
    const peaks = { ...chip.peaks };
    for (const part in found.computes) peaks[part] = chip.peaks[found.computes[part]];
    const figures = forms[found.form](
      asked.batch, added, past, chip.bandwidth, peaks, found.bytes);
    const rows = figures.rows.map((values, i) => {
      const [name, kind, part] = operations[found.operations][i];
      const row = { name, kind, format: found.computes[part] || part };
      ROW.forEach((key, j) => { row[key] = values[j]; });
      return { ...row, bound: bound(row) };
    });
    return {
      ...figures, rows, bound: bound(figures), capacity: chip.capacity,
      fits: chip.capacity === null ? null : figures.needed <= chip.capacity,
      precision: found.name, refusal: refusal(asked, chip, found, past + added),
    };
  }

  const bound = (one) => (one.compute_time > one.memory_time ? "compute" : "memory");

  /** The most sequences that fit; none where the capacity is unknown or limits nothing. */
  function largestBatch(asked) {
    const fits = (batch) => evaluate({ ...asked, batch }).fits;
    if (chips[asked.chip].capacity === null) return null;
    let low = 0, high = 1;
    while (fits(high)) {
      low = high;
      high *= 2;
      if (high > 2 ** 40) return null;
    }
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (fits(middle)) low = middle; else high = middle;
    }
    return low;
  }

  // -- printing -------------------------------------------------------------------------------

  const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"],
    [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

  function si(value, unit, digits = 3) {
    if (!Number.isFinite(value)) return "–";
    if (value === 0) return `0 ${unit}`;
    const rounded = Number(value.toPrecision(digits));
    const [scale, prefix] = PREFIXES.find(([s]) => Math.abs(rounded) >= s) || PREFIXES.at(-1);
    return `${digitsOf(rounded / scale, digits)} ${prefix}${unit}`.trim();
  }

  /** So many significant digits, never with an exponent. */
  function digitsOf(value, digits) {
    const whole = String(Math.floor(Math.abs(value))).length;
    return value.toFixed(Math.max(digits - whole, 0));
  }

  const share = (part, whole) => `${Math.round((100 * part) / whole)} %`;
  const plain = (value) => (value === 0 ? "0" : value >= 1e6
    ? si(value, "").replace(" ", "\u00a0")
    : value >= 100 ? Math.round(value).toLocaleString("en") : digitsOf(value, 3));

  function show(figure, text, value) {
    for (const place of document.querySelectorAll(`#try [data-figure="${figure}"]`)) {
      place.textContent = text;
      place.dataset.value = value === null || Number.isNaN(value) ? "" : String(value);
    }
  }

  // -- drawing --------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";

  function draw(parent, name, attributes = {}, text = "") {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }

  /** An empty picture as wide as its place, with its meaning in words. */
  function picture(id, height, words) {
    const place = $(id), width = Math.max(place.clientWidth, 240);
    place.replaceChildren();
    const svg = draw(place, "svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words });
    return { svg, width };
  }

  const titled = (element, text) => { draw(element, "title", {}, text); return element; };
  const decade = (value, up) => 10 ** (up ? Math.ceil(value) : Math.floor(value));

  function roofline(asked, found) {
    const chip = chips[asked.chip], height = 340;
    const drawn = found.rows.filter((row) => row.flops > 0);
    const used = [...new Set(drawn.map((row) => row.format))].filter((f) => chip.peaks[f]);
    const formatsUsed = used.length ? used : Object.keys(chip.peaks);
    const { svg, width } = picture("roofline", height,
      `Roofline of ${chip.name}: ${found.rows.length} operations; the step does ` +
      `${plain(found.intensity)} FLOP on each byte.`);
    const left = 54, right = width - 12, top = 14, bottom = height - 40;
    const peaks = formatsUsed.map((f) => chip.peaks[f]);
    const log = Math.log10, best = Math.max(...peaks);
    const intensities = [found.intensity, ...drawn.map((row) => row.intensity)];
    const x0 = decade(log(Math.min(1, ...intensities) * 0.9));
    const x1 = decade(log(Math.max(perfmodel.ridge(best, chip.bandwidth) * 4, ...intensities)), true);
    const y1 = best * 2.4;
    const y0 = decade(log(perfmodel.attainable(Math.min(...intensities, 1), best, chip.bandwidth)));
    const x = (v) => left + ((log(v) - log(x0)) / (log(x1) - log(x0))) * (right - left);
    const y = (v) => bottom - ((log(v) - log(y0)) / (log(y1) - log(y0))) * (bottom - top);

    for (let v = x0; v <= x1 * 1.01; v *= 10) {
      draw(svg, "line", { class: "grid", x1: x(v), x2: x(v), y1: top, y2: bottom });
      draw(svg, "text", { class: "tick", x: x(v), y: bottom + 16, "text-anchor": "middle" },
        v >= 1e3 ? si(v, "", 1).replace(" ", "") : String(Number(v.toPrecision(1))));
    }
    for (let v = y0; v <= y1; v *= 10) {
      draw(svg, "line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) });
      draw(svg, "text", { class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end" },
        si(v, "", 1).replace(" ", "\u00a0"));
    }
    draw(svg, "text", { class: "axis", x: right, y: height - 6, "text-anchor": "end" },
      "arithmetic intensity [FLOP/B]");
    draw(svg, "text", { class: "axis", x: left + 6, y: top + 4 }, "FLOP/s");

    // The slanted roof up to the highest peak, and a flat one a format.
    const corner = perfmodel.ridge(best, chip.bandwidth);
    const foot = Math.max(x0, y0 / chip.bandwidth);
    draw(svg, "line", { class: "ridge", x1: x(corner), x2: x(corner), y1: y(best), y2: bottom });
    draw(svg, "text", { class: "tick", x: x(corner) + 4, y: bottom - 6 },
      `ridge ${plain(corner)}`);
    draw(svg, "line", { class: "roof", x1: x(foot), y1: y(foot * chip.bandwidth),
      x2: x(corner), y2: y(best) });
    const placed = [];
    for (const format of formatsUsed.sort((a, b) => chip.peaks[b] - chip.peaks[a])) {
      const peak = chip.peaks[format], turn = perfmodel.ridge(peak, chip.bandwidth);
      draw(svg, "line", { class: "roof", x1: x(turn), y1: y(peak), x2: right, y2: y(peak) });
      const above = y(peak) - 7;
      if (placed.some((other) => Math.abs(other - above) < 3)) continue;
      placed.push(above);
      const same = formatsUsed.filter((other) => chip.peaks[other] === peak).join(", ");
      draw(svg, "text", { class: "label", x: right - 2, y: above, "text-anchor": "end" },
        `${same}: ${si(peak, "FLOP/s")}`);
    }
    const slope = (Math.atan2(y(foot * chip.bandwidth) - y(best), x(corner) - x(foot)) * 180) / Math.PI;
    const at = foot * (corner / foot) ** 0.3; // where points are fewest
    draw(svg, "text", { class: "label", "text-anchor": "middle",
      transform: `translate(${x(at) - 6},${y(at * chip.bandwidth) - 8}) rotate(${-slope})` },
      si(chip.bandwidth, "B/s"));

    if (Number.isNaN(found.time)) return;
    const points = drawn.map((row) => ({
      row, x: x(row.intensity),
      y: y(perfmodel.attainable(row.intensity, chip.peaks[row.format], chip.bandwidth)),
      r: 3.5 + 11 * Math.sqrt(row.time / found.time),
    })).sort((a, b) => b.r - a.r);
    for (const point of points) {
      titled(draw(svg, "circle", { class: `point ${point.row.kind}`, cx: point.x, cy: point.y,
        r: point.r }), `${point.row.name}: ${plain(point.row.intensity)} FLOP/B, ` +
        `${si(point.row.time, "s")}, bound by ${point.row.bound}`);
    }
    const speed = found.flops / found.time;
    const whole = { x: x(found.intensity), y: y(speed) };
    titled(draw(svg, "path", { class: "whole",
      d: `M${whole.x},${whole.y - 7}l7,7l-7,7l-7,-7z` }), `the step: ${si(speed, "FLOP/s")}`);
    callouts(svg, points.filter((p) => p.row.time > 0.04 * found.time), whole, right, bottom);
  }

  /** Names of the larger points, those that lie together as one, below and to the right. */
  function callouts(svg, points, whole, right, bottom) {
    const groups = [];
    for (const point of points) {
      const near = groups.find((g) => Math.hypot(g.x - point.x, g.y - point.y) < 26);
      if (near) near.names.push(point.row.name);
      else groups.push({ x: point.x, y: point.y, r: point.r, names: [point.row.name] });
    }
    groups.push({ x: whole.x, y: whole.y, r: 7, names: ["the step"] });
    groups.sort((a, b) => a.y - b.y);
    let last = -Infinity;
    for (const group of groups) {
      const extra = group.names.length > 2 ? ` + ${group.names.length - 2}` : "";
      const text = group.names.slice(0, 2).join(", ") + extra;
      const end = group.x + group.r + 6 + text.length * 6.6 > right;
      const line = Math.min(Math.max(group.y + 4 + (end ? group.r + 12 : 8), last + 15), bottom - 4);
      last = line;
      draw(svg, "text", { class: "name", y: line, "text-anchor": end ? "end" : "start",
        x: end ? Math.min(group.x + group.r, right) : group.x + group.r + 5 }, text);
    }
  }

  /** One bar of parts on a common scale, with a name before it and a total behind. */
  function bar(svg, { y, left, scale, height, name, total, parts }) {
    draw(svg, "text", { class: "name", x: 0, y: y - 7 }, name);
    draw(svg, "text", { class: "total", x: left + scale(1), y: y - 7, "text-anchor": "end" }, total);
    let from = 0;
    for (const part of parts) {
      const wide = scale(part.share);
      if (part.share > LEAST_SHARE) {
        titled(draw(svg, "rect", { class: `part ${part.kind}`, x: left + from, y, height,
          width: Math.max(wide - 1, 0.5) }), part.title);
        if (wide > part.name.length * 6.6 + 10) {
          draw(svg, "text", { class: `inside ${part.kind}`, x: left + from + wide / 2,
            y: y + height / 2 + 4, "text-anchor": "middle" }, part.name);
        }
      }
      from += wide;
    }
  }

  function times(found) {
    const { svg, width } = picture("times", 158,
      `Step time ${si(found.time, "s")}; all bytes at the bandwidth ${si(found.memory_time, "s")}; ` +
      `all FLOPs at the peaks ${si(found.compute_time, "s")}.`);
    const scale = (part) => part * width;
    const part = (kind, name, time) => ({ kind, name, share: time / found.time,
      title: `${name}: ${si(time, "s")}` });
    const bars = [
      ["operations, each at its larger roof", found.time,
        found.rows.map((row) => part(row.kind, row.name, row.time))],
      ["bytes at the bandwidth", found.memory_time, [
        part("weight", "weights", found.weight_time), part("cache", "KV and state", found.kv_time),
        part("passing", "activations", found.activation_time)]],
      ["FLOPs at the peaks", found.compute_time, [part("flop", "arithmetic", found.compute_time)]],
    ];
    bars.forEach(([name, time, parts], i) => bar(svg, {
      y: 20 + 52 * i, left: 0, scale, height: 28, name, total: si(time, "s"), parts }));
  }

  function memory(found) {
    const whole = Math.max(found.needed, found.capacity || 0);
    const fits = found.fits === null ? "" : found.fits ? ", which fits" : ", which does not fit";
    const { svg, width } = picture("memory", 66,
      `Memory: needs ${si(found.needed, "B")} of ${si(found.capacity ?? NaN, "B")}${fits}.`);
    const scale = (part) => part * width;
    const part = (kind, name, size) => ({ kind, name, share: size / whole,
      title: `${name}: ${si(size, "B")}` });
    bar(svg, { y: 20, left: 0, scale, height: 28, name: `needs ${si(found.needed, "B")}`,
      total: found.capacity === null ? "capacity unknown" : `has ${si(found.capacity, "B")}`,
      parts: [part("weight", "weights", found.weights), part("cache", "KV cache", found.kv),
        part("state", "state", found.state),
        part("free", "free", Math.max(whole - found.needed, 0))] });
    if (found.fits === false) {
      const end = scale(found.capacity / whole);
      draw(svg, "line", { class: "limit", x1: end, x2: end, y1: 17, y2: 54 });
    }
  }

  // -- the page -------------------------------------------------------------------------------

  const state = { ...DEFAULTS };

  const FIGURES = { // beside the headline, by their place
    work: [
      ["floor", "floor", "s"], ["flops", "arithmetic", "FLOP"], ["intensity", "intensity", "FLOP/B"],
      ["bytes", "traffic", "B"], ["weight_traffic", "weights read", "B"],
      ["kv_traffic", "KV and state moved", "B"], ["activation_traffic", "activations moved", "B"],
      ["compute_time", "FLOPs at the peaks", "s"], ["memory_time", "bytes at the bandwidth", "s"],
    ],
    held: [
      ["weights", "weights", "B"], ["kv", "KV cache", "B"], ["state", "state", "B"],
      ["needed", "needed", "B"], ["capacity", "capacity", "B"],
    ],
  };

  function render() {
    const found = evaluate(state), decode = state.phase === "decode";
    const refused = found.refusal !== "", far = refused && found.refusal.startsWith("context");
    $("times").hidden = refused;
    refuse(found);
    if (refused) {
      for (const key of ["time", "floor", "tokens_per_second", "compute_time", "memory_time"]) {
        found[key] = NaN;
      }
    }
    $("time-name").textContent = decode ? "Step time" : "Prefill time";
    show("time", si(found.time, "s"), found.time);
    show("tokens_per_second", plainOrNone(found.tokens_per_second), found.tokens_per_second);
    show("bound", refused ? "–" : found.bound, refused ? null : found.bound);
    show("fits", found.fits === null ? "unknown" : found.fits ? "fits" : "does not fit", found.fits);
    for (const place of document.querySelectorAll('#try [data-figure="fits"]')) {
      place.classList.toggle("over", found.fits === false);
    }
    for (const [key, , unit] of Object.values(FIGURES).flat()) {
      const value = far ? NaN : found[key];
      show(key, key === "intensity" ? `${plainOrNone(value)} ${unit}` : si(value ?? NaN, unit), value);
    }
    const most = far ? null : largestBatch(state);
    show("largest_batch", most === null ? "–" : most.toLocaleString("en"), most);
    table(found, refused);
    roofline(state, found);
    if (!refused) times(found);
    memory(found);
    $("python").textContent = python(found);
    announce(found, decode);
  }

  const plainOrNone = (value) => (Number.isFinite(value) ? plain(value) : "–");

  /** What the library would say, and a way out where its message names one. */
  function refuse(found) {
    const place = $("refusal");
    place.hidden = found.refusal === "";
    place.replaceChildren(found.refusal);
    const ways = precisions[formats(state).preset] || {};
    const other = Object.keys(ways).find((key) => key && found.refusal.includes(`"${ways[key].suffix}"`));
    if (!other || found.refusal === "") return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Compute in ${other}`;
    button.addEventListener("click", () => { choose({ compute: other }); $("compute").focus(); });
    place.append(" ", button);
  }

  function table(found, refused) {
    const body = $("operations").tBodies[0], foot = $("operations").tFoot;
    const line = (cells) => {
      const row = document.createElement("tr");
      cells.forEach((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        cell.append(...[text].flat());
        row.append(cell);
      });
      return row;
    };
    const key = (kind) => {
      const mark = document.createElement("span");
      mark.className = `key ${kind}`;
      mark.title = KINDS[kind] || kind;
      return mark;
    };
    const time = (one) => (refused ? "–" : si(one.time, "s"));
    body.replaceChildren(...found.rows.map((row) => line([
      [key(row.kind), row.name], si(row.flops, ""), si(row.bytes, "B"), plain(row.intensity),
      time(row), refused ? "–" : row.bound])));
    foot.replaceChildren(line(["the step", si(found.flops, ""), si(found.bytes, "B"),
      plain(found.intensity), time(found), refused ? "–" : found.bound]));
  }

  /** The same question as code. */
  function python(found) {
    const decode = state.phase === "decode", own = formats(state).fixed;
    const precision = own || !differs(found) ? "" : `, precision="${found.precision}"`;
    const size = decode ? `context=${state.context}` : `prompt=${state.prompt}`;
    return `import perfmodel as pm\n\nstep = pm.${state.phase}(\n` +
      `    pm.model("${state.model}"), pm.gpu("${state.chip}"),\n` +
      `    batch=${state.batch}, ${size}${precision},\n)\n` +
      "print(step.time, step.bound, step.fits)";
  }

  const differs = (found) => found.precision !== (models[state.model].preset || "bf16");

  let speaking = 0;

  /** One sentence for those who do not see the numbers move, when they have come to rest. */
  function announce(found, decode) {
    const memorySays = found.fits === null ? "its memory is not known"
      : found.fits ? `it needs ${si(found.needed, "B")} and fits`
        : `it needs ${si(found.needed, "B")} and does not fit ${si(found.capacity, "B")}`;
    const text = found.refusal ? "" : `${models[state.model].name} on ${chips[state.chip].name}, ` +
      `${found.precision}: ${decode ? "a step" : "the prefill"} takes ${si(found.time, "s")}, ` +
      `bound by ${found.bound}; ${memorySays}.`;
    clearTimeout(speaking);
    speaking = setTimeout(() => { if ($("said").textContent !== text) $("said").textContent = text; }, 300);
  }

  // -- inputs ---------------------------------------------------------------------------------

  function option(value, text, disabled = false) {
    const one = new Option(text, value);
    one.disabled = disabled;
    return one;
  }

  function fill() {
    $("model").append(...Object.entries(models).map(([key, model]) => option(key, model.name)));
    const vendors = new Map();
    for (const [key, chip] of Object.entries(chips)) {
      if (!vendors.has(chip.vendor)) {
        vendors.set(chip.vendor, Object.assign(document.createElement("optgroup"), { label: chip.vendor }));
      }
      vendors.get(chip.vendor).append(option(key, chip.name));
    }
    $("chip").append(...vendors.values());
    $("precision").append(option("", "as released"), ...Object.keys(precisions).map((key) => option(key, key)));
    $("kv").append(option("", "its own"), ...Object.keys(caches).map((key) => option(key, key)));
    const computes = new Set(Object.values(precisions).flatMap((ways) => Object.keys(ways)));
    $("compute").append(...[...computes].map((key) => option(key, key || "its own")));
    for (const place in FIGURES) {
      $(place).append(...FIGURES[place].map(([key, name]) => figure(key, name)));
    }
    $("held").append(figure("largest_batch", "largest batch that fits"));
  }

  function figure(key, name) {
    const pair = document.createElement("div"), value = document.createElement("output");
    value.dataset.figure = key;
    const [term, said] = ["dt", "dd"].map((tag) => document.createElement(tag));
    term.textContent = name;
    said.append(value);
    pair.append(term, said);
    return pair;
  }

  /** Take a choice, put it into the inputs, the address and the answer. */
  function choose(change, { keep = null } = {}) {
    Object.assign(state, change);
    const found = formats(state), ways = precisions[found.preset] || {};
    if (found.fixed || !(state.compute in ways)) state.compute = "";
    if (found.fixed) state.kv = "";
    const model = models[state.model];
    const released = model.released ? model.released.name.replace("checkpoint-", "") : model.preset;
    $("precision").options[0].textContent = released ? `as released (${released})` : "not stated (bf16)";
    for (const one of $("compute").options) one.disabled = Boolean(one.value) && !(one.value in ways);
    for (const id of ["kv", "compute"]) $(id).disabled = found.fixed;
    for (const id of CHOICES) $(id).value = state[id];
    for (const id of ["decode", "prefill"]) $(id).checked = state.phase === id;
    $("context-field").hidden = state.phase !== "decode";
    $("prompt-field").hidden = state.phase !== "prefill";
    for (const id of COUNTS) {
      if (keep !== $(id)) $(id).value = state[id];
      if (keep !== $(`${id}-slider`)) $(`${id}-slider`).value = Math.log2(state[id]);
      $(`${id}-slider`).setAttribute("aria-valuetext", state[id].toLocaleString("en"));
    }
    remember();
    render();
  }

  let writing = 0;

  /** The choice in the address, without what is as usual. */
  function remember() {
    const said = Object.keys(DEFAULTS).filter((key) => state[key] !== DEFAULTS[key]);
    const hash = new URLSearchParams(said.map((key) => [key, String(state[key])])).toString();
    clearTimeout(writing);
    writing = setTimeout(() => {
      if (location.hash.slice(1) !== hash) {
        history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      }
    }, 150);
  }

  /** What an address asks for; what it does not know is as usual. */
  function recall() {
    const asked = new URLSearchParams(location.hash.slice(1)), found = { ...DEFAULTS };
    for (const id of CHOICES) {
      const value = asked.get(id);
      if (value !== null && [...$(id).options].some((one) => one.value === value)) found[id] = value;
    }
    if (["decode", "prefill"].includes(asked.get("phase"))) found.phase = asked.get("phase");
    for (const id of COUNTS) {
      const value = Number(asked.get(id));
      if (Number.isInteger(value) && value >= 1 && value <= Number($(id).max)) found[id] = value;
    }
    return found;
  }

  function listen() {
    for (const id of CHOICES) {
      $(id).addEventListener("change", () => choose({ [id]: $(id).value }));
    }
    for (const phase of ["decode", "prefill"]) {
      $(phase).addEventListener("change", () => choose({ phase }));
    }
    for (const id of COUNTS) {
      const number = $(id), slider = $(`${id}-slider`);
      number.addEventListener("input", () => {
        const valid = number.checkValidity();
        number.setAttribute("aria-invalid", String(!valid));
        if (valid) choose({ [id]: Number(number.value) }, { keep: number });
      });
      number.addEventListener("change", () => {
        if (!number.checkValidity()) number.value = state[id];
        number.setAttribute("aria-invalid", "false");
      });
      slider.addEventListener("input", () =>
        choose({ [id]: Math.round(2 ** Number(slider.value)) }, { keep: slider }));
    }
    $("form").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => choose(recall()));
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (Math.round(entry.contentRect.width) === width) return;
      width = Math.round(entry.contentRect.width);
      render();
    }).observe($("roofline"));
  }

  perfmodel.evaluate = evaluate;
  perfmodel.largestBatch = largestBatch;
  fill();
  document.getElementById("try").hidden = false;
  choose(recall());
  listen();
})();
