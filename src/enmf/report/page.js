"use strict";
(function () {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", function () {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });

  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("thead th").forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const value = function (row) { const cell = row.cells[column]; return cell.dataset.value || cell.textContent; };
        const rows = Array.from(body.rows).sort(function (a, b) {
          const x = value(a), y = value(b), difference = Number(x) - Number(y);
          return (Number.isNaN(difference) ? x.localeCompare(y) : difference) * (up ? 1 : -1);
        });
        rows.forEach(function (row) { body.appendChild(row); });
      });
    });
  });

  document.querySelectorAll("svg.chart").forEach(function (svg) {
    const data = JSON.parse(svg.dataset.chart), box = data.box, words = svg.parentNode.querySelector(".readout");
    const full = data.x.slice();
    let shown = full.slice();
    const px = function (t) { return box[0] + (t - shown[0]) / (shown[1] - shown[0]) * (box[2] - box[0]); };
    function draw() {
      let low = Infinity, high = -Infinity;
      data.lines.forEach(function (line) {
        line.forEach(function (p) { if (p[0] >= shown[0] && p[0] <= shown[1]) { low = Math.min(low, p[1]); high = Math.max(high, p[1]); } });
      });
      if (!(low <= high)) { low = data.y[0]; high = data.y[1]; }
      if (shown[0] === full[0] && shown[1] === full[1]) { low = data.y[0]; high = data.y[1]; }
      const room = (high - low || Math.abs(high) || 1) * 0.05, y0 = low - room, y1 = high + room;
      const py = function (v) { return box[3] - (v - y0) / (y1 - y0) * (box[3] - box[1]); };
      svg.querySelectorAll("polyline.run").forEach(function (line, k) {
        line.setAttribute("points", data.lines[k].map(function (p) { return px(p[0]).toFixed(1) + "," + py(p[1]).toFixed(1); }).join(" "));
      });
      svg.querySelectorAll("line.bound").forEach(function (line, k) { line.setAttribute("y1", py(data.bounds[k])); line.setAttribute("y2", py(data.bounds[k])); });
      svg.querySelectorAll("rect.band").forEach(function (rect, k) {
        const a = Math.max(px(data.bands[k][0]), box[0]), b = Math.min(px(data.bands[k][1]), box[2]);
        rect.setAttribute("x", a); rect.setAttribute("width", Math.max(b - a, 0));
      });
      svg.querySelectorAll("text.bandname").forEach(function (text, k) {
        const a = Math.max(px(data.bands[k][0]), box[0]), b = Math.min(px(data.bands[k][1]), box[2]);
        text.setAttribute("x", (a + b) / 2); text.style.display = b - a > 60 ? "" : "none";
      });
      svg.querySelectorAll("text.x").forEach(function (text, k, all) { text.textContent = (shown[0] + (shown[1] - shown[0]) * k / (all.length - 1)).toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""); });
      svg.querySelectorAll("text.y").forEach(function (text, k, all) { text.textContent = (y0 + (y1 - y0) * k / (all.length - 1)).toPrecision(4); });
      svg.dataset.shown = shown.join(" ");
    }
    function zoom(a, b) { shown = [Math.max(full[0], Math.min(a, b)), Math.min(full[1], Math.max(a, b))]; draw(); }
    function at(event) {
      const frame = svg.getBoundingClientRect(), x = (event.clientX - frame.left) / frame.width * data.size[0];
      return shown[0] + (Math.min(Math.max(x, box[0]), box[2]) - box[0]) / (box[2] - box[0]) * (shown[1] - shown[0]);
    }
    const pick = svg.querySelector(".pick");
    let from = null;
    svg.addEventListener("pointerdown", function (event) { from = at(event); });
    svg.addEventListener("pointermove", function (event) {
      const t = at(event);
      let best = null;
      data.lines.forEach(function (line, k) {
        line.forEach(function (p) { if (best === null || Math.abs(p[0] - t) < Math.abs(best[1][0] - t)) { best = [k, p]; } });
      });
      if (best) { words.textContent = data.names[best[0]] + ": " + best[1][1].toPrecision(6) + " % after " + best[1][0].toPrecision(3) + " s" + (best[1][2] ? " (" + best[1][2] + ")" : ""); }
      if (from !== null) { const a = px(Math.min(from, t)), b = px(Math.max(from, t)); pick.setAttribute("x", a); pick.setAttribute("width", b - a); }
    });
    addEventListener("pointerup", function (event) {
      if (from === null) { return; }
      const to = at(event);
      if (Math.abs(to - from) > (shown[1] - shown[0]) * 0.02) { zoom(from, to); }
      from = null; pick.setAttribute("width", 0);
    });
    const tools = svg.parentNode.querySelector(".tools");
    tools.querySelector(".in").addEventListener("click", function () { zoom(shown[1] - (shown[1] - shown[0]) / 2, shown[1]); });
    tools.querySelector(".all").addEventListener("click", function () { shown = full.slice(); draw(); });
  });
})();
