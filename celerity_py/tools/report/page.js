"use strict";
(() => {
  const canvas = document.getElementById("timeline");
  const details = document.getElementById("details");
  const run = JSON.parse(document.getElementById("content").textContent);
  const ticks = 4294967295;
  const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const as = (text, kind) => new kind(bytes(text).buffer);
  const scale = run.span / ticks;
  const rows = run.rows.map(row => {
    const made = {label: row.label, count: 0};
    if (row.slices) {
      const [start, duration, entry] = row.slices.split("|");
      Object.assign(made, {start: as(start, Uint32Array), duration: as(duration, Uint32Array), entry: as(entry, Uint16Array)});
      made.count = made.start.length;
    }
    if (row.bins) Object.assign(made, {bins: as(row.bins, Uint8Array), names: as(row.names, Uint16Array)});
    return made;
  });
  const path = {
    start: as(run.path.start, Uint32Array), end: as(run.path.end, Uint32Array),
    cause: as(run.path.cause, Uint8Array), rank: as(run.path.rank, Uint32Array),
  };
  const colourOf = {
    "kernel": "kernel", "combine": "kernel", "host task": "host-task", "initialize": "host-task", "launch": "issuing", "copy": "copy",
    "alloc": "allocation", "free": "allocation", "plan": "planning", "issue": "issuing", "work": "other", "python": "other",
    "submit": "application", "map": "planning", "wait": "peer", "blocked": "peer", "barrier": "peer",
    "send": "transfer", "receive": "transfer", "signal": "transfer", "fetch": "transfer", "split receive": "transfer",
  };
  let palette = {};
  const readPalette = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["text", "dim", "line", "panel", "link", "kernel", "host-task", "copy", "transfer", "allocation", "planning",
      "issuing", "application", "peer", "other"]) palette[name] = style.getPropertyValue("--" + name).trim();
  };
  const entryColour = entry => palette[colourOf[run.entries[entry][1]] || "other"];
  const causeColour = cause => palette[run.causes[cause].replace(" ", "-")];
  const rowHeight = rows.length > 60 ? 12 : 20, top = 22, pathHeight = 18;
  const labelWidth = Math.min(220, 12 + 7 * Math.max(13, ...rows.map(row => row.label.length)));
  const height = top + pathHeight + 6 + rows.length * rowHeight + 4;
  let low = 0, high = run.span, width = 0, context = null;
  let row = 0, chosen = -1;  // row -1: the critical path

  const time = value => {
    const digits = number => number >= 99.95 ? number.toFixed(0) : number >= 9.995 ? number.toFixed(1) : number.toFixed(2);
    if (Math.abs(value) >= 999500) return digits(value / 1e6) + " s";
    return Math.abs(value) >= 999.5 ? digits(value / 1e3) + " ms" : digits(value) + " µs";
  };
  const x = at => labelWidth + (at - low) / (high - low) * (width - labelWidth);
  const at = place => low + (place - labelWidth) / (width - labelWidth) * (high - low);
  const firstFrom = (array, value) => {
    let from = 0, to = array.length;
    while (from < to) { const middle = (from + to) >> 1; if (array[middle] < value) from = middle + 1; else to = middle; }
    return from;
  };
  // Most of what is visible: outside of the windows there are no slices, and the bins of the whole run show more.
  const inWindow = () => run.windows.some(([from, to]) => Math.min(high, to) - Math.max(low, from) > (high - low) / 2);
  const hasSlices = row => row.count > 0 && (!row.bins || inWindow());
  const rowTop = index => index < 0 ? top : top + pathHeight + 6 + index * rowHeight;

  const axis = () => {
    const step0 = (high - low) / Math.max(2, Math.floor((width - labelWidth) / 110));
    const power = 10 ** Math.floor(Math.log10(step0));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(value => value >= step0);
    context.textAlign = "center"; context.fillStyle = palette.dim; context.strokeStyle = palette.line;
    for (let mark = Math.ceil(low / step) * step; mark <= high; mark += step) {
      const place = Math.round(x(mark)) + .5;
      context.beginPath(); context.moveTo(place, top - 4); context.lineTo(place, height); context.stroke();
      context.fillText(time(mark), place, 12);
    }
  };
  const drawBins = (row, y) => {
    const count = row.bins.length, binWidth = run.span / count;
    const first = Math.max(0, Math.floor(low / binWidth)), last = Math.min(count - 1, Math.floor(high / binWidth));
    const perPixel = Math.max(1, Math.floor((last - first + 1) / (width - labelWidth)));
    for (let bin = first; bin <= last; bin += perPixel) {
      let busy = 0, name = row.names[bin];
      for (let each = bin; each < Math.min(bin + perPixel, count); each++) if (row.bins[each] > busy) { busy = row.bins[each]; name = row.names[each]; }
      if (!busy) continue;
      const left = Math.max(x(bin * binWidth), labelWidth), right = Math.min(x((bin + perPixel) * binWidth), width);
      const full = (rowHeight - 3) * Math.max(.12, busy / 255);
      context.fillStyle = entryColour(name);
      context.fillRect(left, y + rowHeight - 2 - full, Math.max(right - left, .6), full);
    }
  };
  const drawSlices = (row, y, index) => {
    const deepest = 3, ends = [];
    const {start, duration, entry} = row;
    let lastRight = -1, lastEntry = -1;
    for (let place = 0; place < row.count; place++) {
      const from = start[place] * scale;
      if (from > high) break;
      while (ends.length && ends[ends.length - 1] <= start[place]) ends.pop();
      const depth = Math.min(ends.length, deepest);
      ends.push(start[place] + duration[place]);
      const to = from + duration[place] * scale;
      if (to < low) continue;
      const left = Math.max(x(from), labelWidth), right = Math.max(Math.min(x(to), width), left + .7);
      if (right <= lastRight && entry[place] === lastEntry && place !== chosen) continue;
      lastRight = right; lastEntry = entry[place];
      context.fillStyle = entryColour(entry[place]);
      const inset = 1 + 2 * depth;
      context.fillRect(left, y + inset, right - left, rowHeight - 1 - 2 * inset);
      if (right - left > 3) { context.fillStyle = palette.panel; context.fillRect(right - .6, y + inset, .6, rowHeight - 1 - 2 * inset); }
      if (right - left > 40 && rowHeight > 14 && depth < 2) {
        context.save(); context.beginPath(); context.rect(left, y, right - left - 2, rowHeight); context.clip();
        context.fillStyle = palette.panel; context.textAlign = "left";
        context.fillText(run.entries[entry[place]][0], left + 3, y + rowHeight - 6); context.restore();
      }
      if (index === focusRow() && place === chosen) {
        context.strokeStyle = palette.text; context.lineWidth = 2;
        context.strokeRect(left, y + 1, Math.max(right - left, 2), rowHeight - 3); context.lineWidth = 1;
      }
    }
  };
  const focusRow = () => row;
  const drawPath = () => {
    const first = Math.max(0, firstFrom(path.end, low / scale) - 1);
    for (let place = first; place < path.start.length; place++) {
      const from = path.start[place] * scale, to = path.end[place] * scale;
      if (from > high) break;
      if (to < low) continue;
      const left = Math.max(x(from), labelWidth), right = Math.max(Math.min(x(to), width), left + .7);
      context.fillStyle = causeColour(path.cause[place]);
      context.fillRect(left, top + 1, right - left, pathHeight - 3);
      if (row === -1 && place === chosen) { context.strokeStyle = palette.text; context.lineWidth = 2; context.strokeRect(left, top + 1, Math.max(right - left, 2), pathHeight - 3); context.lineWidth = 1; }
    }
  };
  const draw = () => {
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    axis();
    drawPath();
    context.textAlign = "left";
    for (let index = -1; index < rows.length; index++) {
      const y = rowTop(index);
      if (index >= 0) (hasSlices(rows[index]) ? drawSlices : rows[index].bins ? drawBins : () => {})(rows[index], y, index);
      context.fillStyle = palette.panel; context.fillRect(0, y, labelWidth - 2, rowHeight);
      context.fillStyle = index === row ? palette.link : palette.dim;
      context.textAlign = "left";
      context.fillText((index === row ? "▸ " : "") + (index < 0 ? "critical path" : rows[index].label), 4, y + (rowHeight > 14 ? 14 : 10), labelWidth - 8);
    }
  };
  const resize = () => {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    canvas.style.height = height + "px";
    canvas.width = width * ratio; canvas.height = height * ratio;
    context = canvas.getContext("2d"); context.setTransform(ratio, 0, 0, ratio, 0, 0);
    readPalette(); draw();
  };
  const show = (from, to) => {
    const length = Math.min(Math.max(to - from, run.span * 1e-7, .01), run.span);
    low = Math.min(Math.max(from, 0), run.span - length); high = low + length;
    draw(); tell();
  };
  const zoom = (factor, centre = (low + high) / 2) => show(centre - (centre - low) * factor, centre + (high - centre) * factor);
  const pan = part => show(low + part * (high - low), high + part * (high - low));
  const tell = () => {
    let text = `${time(low)} to ${time(high)} of ${time(run.span)}.`;
    if (row === -1 && chosen >= 0) {
      text += `\nCritical path: ${run.causes[path.cause[chosen]]} on rank ${path.rank[chosen]}, ${time((path.end[chosen] - path.start[chosen]) * scale)} from ${time(path.start[chosen] * scale)}.`;
    } else if (row >= 0 && chosen >= 0) {
      const entry = run.entries[rows[row].entry[chosen]];
      text += `\n${rows[row].label}: ${entry[0]} (${entry[1]}), ${time(rows[row].duration[chosen] * scale)} from ${time(rows[row].start[chosen] * scale)}` + (entry[2] ? `, submitted at ${entry[2]}` : "") + ".";
    } else if (row >= 0) {
      text += `\n${rows[row].label}` + (rows[row].bins && !hasSlices(rows[row]) ? ": each bin shows how busy the row was. Keys 1 to 9 go to the windows that show slices." : ".");
    }
    details.textContent = text;
  };
  const spanOf = place => row === -1 ? [path.start[place] * scale, path.end[place] * scale]
    : [rows[row].start[place] * scale, (rows[row].start[place] + rows[row].duration[place]) * scale];
  const choose = place => {
    const count = row === -1 ? path.start.length : rows[row].count;
    if (count === 0) { chosen = -1; tell(); return; }
    chosen = Math.min(Math.max(place, 0), count - 1);
    const [from, to] = spanOf(chosen);
    if (to < low || from > high || (rows[row] && rows[row].bins && !hasSlices(rows[row]))) { const half = Math.min((high - low) / 2, rows[row] && rows[row].bins ? (to - from) * 20 + 1 : run.span); show((from + to) / 2 - half, (from + to) / 2 + half); }
    draw(); tell();
  };
  const step = by => {
    if (chosen >= 0) return choose(chosen + by);
    const starts = row === -1 ? path.start : rows[row].start;
    if (starts) choose(firstFrom(starts, low / scale));
  };
  const select = index => { row = Math.min(Math.max(index, -1), rows.length - 1); chosen = -1; draw(); tell(); };

  canvas.addEventListener("keydown", event => {
    const keys = {
      ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), ArrowUp: () => select(row - 1), ArrowDown: () => select(row + 1),
      "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), Home: () => show(0, run.span), End: () => pan(1e9),
      n: () => step(1), p: () => step(-1),
      Enter: () => { if (chosen >= 0) { const [from, to] = spanOf(chosen), half = Math.max(to - from, .01); show(from - half, to + half); } },
    };
    if (event.key >= "1" && event.key <= "9" && run.windows[event.key - 1]) keys[event.key] = () => show(...run.windows[event.key - 1]);
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); act();
  });
  canvas.addEventListener("wheel", event => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;  // the page scrolls
    event.preventDefault();
    if (event.shiftKey) pan(Math.sign(event.deltaY) * .1); else zoom(event.deltaY > 0 ? 1.25 : .8, at(event.offsetX));
  }, {passive: false});
  let drag = null;
  canvas.addEventListener("pointerdown", event => { canvas.focus(); drag = {x: event.offsetX, low, high, moved: false}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", event => {
    if (!drag) return;
    const by = (event.offsetX - drag.x) / (width - labelWidth) * (drag.high - drag.low);
    if (Math.abs(event.offsetX - drag.x) > 3) { drag.moved = true; show(drag.low - by, drag.high - by); }
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && !drag.moved) {
      const moment = at(event.offsetX);
      row = event.offsetY < top + pathHeight + 3 ? -1 : Math.min(Math.floor((event.offsetY - top - pathHeight - 6) / rowHeight), rows.length - 1);
      chosen = -1;
      const starts = row === -1 ? path.start : rows[row].start;
      if (starts && (row === -1 || hasSlices(rows[row]))) {
        for (let place = firstFrom(starts, moment / scale) - 1; place >= 0 && place > firstFrom(starts, moment / scale) - 200; place--) {
          const [from, to] = spanOf(place);
          if (from <= moment && moment <= to) { chosen = place; break; }
        }
      }
      draw(); tell();
    }
    drag = null;
  });
  canvas.addEventListener("dblclick", () => show(0, run.span));
  window.addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", resize);
  resize(); tell();
})();
