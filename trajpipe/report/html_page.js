"use strict";
// Draws the list of episodes and one episode at a time from the inert JSON blocks of this page.
// Text of data is only ever set as text, never as markup.
(() => {
  const read = (id) => { const block = document.getElementById(id); return block ? JSON.parse(block.textContent) : null; };
  const index = read("index");
  const $ = (id) => document.getElementById(id);
  const list = $("list"), body = list.tBodies[0], viewer = $("viewer"), PAGE = 100;
  const SUCCESS = ["no", "yes", "unknown"];
  const total = index.name.length;
  let shown = [...Array(total).keys()], page = 0, open = -1, view = null;

  function make(tag, text, cls) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (cls) node.className = cls;
    return node;
  }
  const column = (name, e) => index.tables[name][index[name][e]];
  const cells = (e) => [e, index.name[e], column("task", e), index.length[e].toLocaleString("en"), column("tag", e),
    SUCCESS[index.success[e]], column("split", e), column("recording", e), index.findings[e].length || ""];

  // --- the list
  function drawList() {
    const rows = shown.slice(page * PAGE, (page + 1) * PAGE).map((e) => {
      const row = make("tr");
      row.dataset.e = e;
      if (e === open) row.className = "open";
      cells(e).forEach((value, i) => row.append(make("td", String(value), [0, 3, 8].includes(i) ? "n" : "")));
      return row;
    });
    body.replaceChildren(...rows);
    const first = shown.length ? page * PAGE + 1 : 0, last = Math.min(shown.length, (page + 1) * PAGE);
    $("count").textContent = `${first}–${last} of ${shown.length.toLocaleString("en")}` +
      (shown.length === total ? " episodes" : ` that match, of ${total.toLocaleString("en")} episodes`);
    $("earlier").disabled = page === 0;
    $("later").disabled = last >= shown.length;
  }
  function filter() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = [];
    for (let e = 0; e < total; e++) {
      const text = words.length ? `${cells(e).join(" ")} ${index.demo[e]} ${index.findings[e].join(" ")}`.toLowerCase() : "";
      if (words.every((w) => text.includes(w))) shown.push(e);
    }
    page = 0;
    drawList();
  }
  function turn(step) {
    const last = Math.max(0, Math.ceil(shown.length / PAGE) - 1);
    page = Math.min(last, Math.max(0, page + step));
    drawList();
  }

  // --- one episode
  function decode(curve) {
    const bytes = atob(curve.v), values = new Float64Array(curve.s * curve.p);
    for (let i = 0; i < values.length; i++) {
      const code = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8), d = Math.floor(i / curve.p);
      values[i] = code === 65535 ? NaN : curve.lo[d] + (curve.hi[d] / 65534 - curve.lo[d] / 65534) * code;
    }
    return values;
  }
  function partsOf(e) {
    return index.parts[e].map(([output, detail, name, rows]) => ({
      stage: index.outputs[output].stage, file: index.outputs[output].name, name: name || index.name[e], rows,
      data: detail === null ? null : read(`d${detail}`),
    }));
  }
  function show(e, focus = true) {
    open = e;
    const parts = partsOf(e);
    view = { rows: index.length[e], row: 0, marks: [] };
    viewer.hidden = false;
    viewer.replaceChildren(heading(e), ...facts(e, parts), ...frames(parts), ...curves(parts));
    const at = shown.indexOf(e);
    if (at >= 0) page = Math.floor(at / PAGE);
    drawList();
    if (focus) { viewer.focus({ preventScroll: true }); viewer.scrollIntoView({ block: "start" }); }
    history.replaceState(null, "", `#e=${e}`);
    mark(0);
  }
  function close() {
    open = -1; view = null;
    viewer.hidden = true;
    viewer.replaceChildren();
    history.replaceState(null, "", "#episodes");
    drawList();
  }
  function step(by) {
    const at = shown.indexOf(open);
    const next = at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by;
    if (next >= 0 && next < shown.length) show(shown[next]);
  }
  function heading(e) {
    const head = make("h3");
    head.append(make("span", index.name[e]));
    for (const [text, act] of [["Previous", () => step(-1)], ["Next", () => step(1)], ["Close", close]]) {
      const button = make("button", text);
      button.type = "button";
      button.addEventListener("click", act);
      head.append(button);
    }
    return head;
  }
  function facts(e, parts) {
    const chips = make("div", undefined, "chips");
    const pairs = [["task", column("task", e) || "none"], ["tag", column("tag", e)], ["success", SUCCESS[index.success[e]]],
      ["split", column("split", e) || "none"], ["rows", index.length[e]], ["recording", column("recording", e)],
      ["demo there", index.demo[e] || index.name[e]]];
    for (const p of parts) pairs.push([`in ${p.stage}`, `${p.name} of ${p.file}` + (p.rows === index.length[e] ? "" : `, ${p.rows} rows`)]);
    for (const [key, value] of pairs) {
      const chip = make("span");
      chip.append(make("b", key), document.createTextNode(value));
      chips.append(chip);
    }
    const out = [chips];
    if (index.findings[e].length) {
      const items = make("ul");
      index.findings[e].forEach((f) => items.append(make("li", f)));
      out.push(make("h4", "Findings"), items);
    }
    if (parts.every((p) => p.data === null)) out.push(make("p", "Its frames and curves are not in this page: see the note above the list.", "dim"));
    return out;
  }
  const base = (name) => name.split("/").pop();
  function frames(parts) {
    const strips = parts.flatMap((p) => (p.data ? p.data.f.map((f) => ({ ...f, stage: p.stage, of: p.rows })) : []));
    if (!strips.length) return [];
    const names = [...new Set(strips.map((s) => base(s.n)))];
    strips.sort((a, b) => names.indexOf(base(a.n)) - names.indexOf(base(b.n)));
    const rows = new Map(names.map((name) => [name, make("div", undefined, "big")]));
    const films = strips.map((s) => strip(s, rows.get(base(s.n))));
    return [make("h4", "Frames at the chosen row, stage beside stage"), ...rows.values(), ...films];
  }
  function strip(s, big) {
    const image = new Image(), scale = Math.max(1, Math.min(3, 230 / s.w));
    const figure = make("figure"), one = make("canvas"), label = make("figcaption");
    one.width = s.w; one.height = s.h;
    one.style.width = `${s.w * scale}px`; one.style.height = `${s.h * scale}px`;
    figure.append(one, label);
    big.append(figure);
    const block = make("div", undefined, "strip"), film = make("canvas");
    film.width = s.w * s.rows.length; film.height = s.h;
    block.append(make("div", `${s.stage} · ${s.n} · ${s.rows.length} of ${s.of} frames, ${s.w} × ${s.h} of ${s.full[1]} × ${s.full[0]} pixels`, "label"), film);
    film.addEventListener("click", (event) => {
      const box = film.getBoundingClientRect();
      mark(s.rows[Math.min(s.rows.length - 1, Math.floor((event.clientX - box.left) / box.width * s.rows.length))]);
    });
    const draw = () => {
      const at = nearest(s.rows, view ? view.row : 0), pen = film.getContext("2d");
      one.getContext("2d").drawImage(image, at * s.w, 0, s.w, s.h, 0, 0, s.w, s.h);
      label.textContent = `${s.stage} · ${base(s.n)} · row ${s.rows[at]}`;
      pen.drawImage(image, 0, 0);
      pen.strokeStyle = "#ffb000"; pen.lineWidth = 3;
      pen.strokeRect(at * s.w + 1.5, 1.5, s.w - 3, s.h - 3);
    };
    const own = view;
    image.onload = () => { own.marks.push(draw); if (own === view) draw(); };
    image.src = `data:image/jpeg;base64,${s.src}`;
    return block;
  }
  function nearest(rows, row) {
    let best = 0;
    rows.forEach((r, i) => { if (Math.abs(r - row) < Math.abs(rows[best] - row)) best = i; });
    return best;
  }
  function curves(parts) {
    const out = [];
    for (const p of parts) {
      if (!p.data || !p.data.c.length) continue;
      const grid = make("div", undefined, "curves");
      p.data.c.forEach((c) => grid.append(curveBlock(c, p.rows)));
      const block = make("details"), spans = p.data.c.some((c) => c.e);
      block.append(make("summary", `Curves of ${p.stage}` + (spans ? `: least and greatest value of spans of its ${p.rows} rows` : "")), grid);
      block.open = out.length === 0;
      block.addEventListener("toggle", () => view && mark(view.row));
      out.push(block);
    }
    return out;
  }
  function curveBlock(c, rows) {
    const block = make("div", undefined, "curve"), canvas = make("canvas"), values = make("div", undefined, "values");
    const label = make("div", undefined, "label"), low = Math.min(...c.lo), high = Math.max(...c.hi), v = decode(c);
    const words = (c.w > c.s ? ` · ${c.s} of ${c.w} dimensions` : c.w > 1 ? ` · ${c.w} dimensions` : "") + (c.bad ? ` · ${c.bad} values not finite` : "");
    label.append(make("span", c.n + words), make("span", `${short(low)} … ${short(high)}`, "dim"));
    block.append(label, canvas, values);
    const spans = c.e ? c.p / 2 : c.p;
    const xOf = (i) => (c.e ? (Math.floor(i / 2) + 0.25 + 0.5 * (i % 2)) / spans : c.p > 1 ? i / (c.p - 1) : 0.5);
    const draw = () => {
      if (!canvas.clientWidth) return; // folded away
      const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = 110;
      canvas.width = w * ratio; canvas.height = h * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.lineWidth = 1.1;
      const yOf = (value) => 6 + (h - 12) * (high > low ? (high / 2 - value / 2) / (high / 2 - low / 2) : 0.5);
      for (let d = 0; d < c.s; d++) {
        pen.strokeStyle = `hsl(${(d * 137.5) % 360} 65% 50%)`;
        pen.beginPath();
        let down = false;
        for (let i = 0; i < c.p; i++) {
          const value = v[d * c.p + i];
          if (Number.isNaN(value)) { down = false; continue; }
          const x = 4 + (w - 8) * xOf(i), y = yOf(value);
          if (down) pen.lineTo(x, y); else { pen.moveTo(x, y); pen.lineTo(x + 0.01, y); }
          down = true;
        }
        pen.stroke();
      }
      const row = Math.min(view.row, rows - 1), x = 4 + (w - 8) * (rows > 1 ? row / (rows - 1) : 0.5);
      pen.strokeStyle = "#ffb000";
      pen.strokeRect(x, 0, 0.01, h);
      const span = Math.min(spans - 1, c.e ? Math.floor(row / rows * spans) : row);
      values.textContent = `row ${row}: ` + [...Array(Math.min(c.s, 16)).keys()].map((d) => {
        if (!c.e) return short(v[d * c.p + span]);
        return `${short(v[d * c.p + 2 * span])}…${short(v[d * c.p + 2 * span + 1])}`;
      }).join("  ");
    };
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      mark(Math.round((event.clientX - box.left - 4) / (box.width - 8) * (rows - 1)));
    });
    view.marks.push(draw);
    return block;
  }
  const short = (value) => (Number.isNaN(value) ? "gap" : String(Number(value.toPrecision(4))));
  function mark(row) {
    if (!view) return;
    view.row = Math.min(Math.max(0, row), Math.max(0, view.rows - 1));
    view.marks.forEach((draw) => draw());
  }

  // --- keys and buttons
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target === $("filter")) {
      if (event.key === "Escape" || event.key === "Enter") $("filter").blur();
      return;
    }
    const act = {
      "/": () => $("filter").focus(), j: () => step(1), k: () => step(-1), Escape: () => view && close(),
      ArrowLeft: () => view && mark(view.row - Math.ceil(view.rows / 100)), ArrowRight: () => view && mark(view.row + Math.ceil(view.rows / 100)),
    }[event.key];
    if (act && (view || !event.key.startsWith("Arrow"))) { event.preventDefault(); act(); }
  });
  $("filter").addEventListener("input", filter);
  $("earlier").addEventListener("click", () => turn(-1));
  $("later").addEventListener("click", () => turn(1));
  body.addEventListener("click", (event) => { const row = event.target.closest("tr"); if (row) show(Number(row.dataset.e)); });
  window.addEventListener("resize", () => view && mark(view.row));
  $("tools").hidden = false;
  list.classList.add("live");
  drawList();
  const asked = /^#e=(\d+)$/.exec(location.hash);
  if (asked && Number(asked[1]) < total) show(Number(asked[1]), false);
  document.documentElement.dataset.ready = "1";
})();
