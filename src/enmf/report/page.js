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

  function ticks(low, high, whole) {
    const rough = (high - low) / 5, unit = Math.pow(10, Math.floor(Math.log10(rough)));
    let step = [1, 2, 5, 10].map(function (mark) { return mark * unit; }).find(function (size) { return size >= rough * (1 - 1e-9); });
    if (whole) { step = Math.max(1, step); }
    const place = Math.floor(Math.log10(step) + 1e-9), largest = Math.max(Math.abs(low), Math.abs(high)), found = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k += 1) {
      const value = k * step;
      found.push([value, largest >= 1e-4 && largest < 1e6 ? value.toFixed(Math.max(0, -place)) : value.toPrecision(4)]);
    }
    return found;
  }

  document.querySelectorAll("svg.chart").forEach(function (svg) {
    const data = JSON.parse(svg.dataset.chart), frame = svg.parentNode, course = frame.parentNode, words = course.querySelector(".readout");
    const at = function (step) { return data.log ? Math.log10(1 + step) : step; };
    const step = function (place) { return data.log ? Math.pow(10, place) - 1 : place; };
    let shown = [0, data.end];
    function label(kind, side, share, text) {
      const span = document.createElement("span");
      span.className = kind; span.style[side] = 100 * share + "%"; span.textContent = text;
      frame.appendChild(span);
      return text.length;
    }
    function draw() {
      const whole = shown[0] === 0 && shown[1] === data.end;
      let low = Infinity, high = -Infinity;
      data.lines.forEach(function (line) {
        line.forEach(function (p) { if (at(p[0]) >= shown[0] && at(p[0]) <= shown[1]) { low = Math.min(low, p[1]); high = Math.max(high, p[1]); } });
      });
      if (whole || !(low <= high)) { low = data.y[0]; high = data.y[1]; } else { const room = (high - low || Math.abs(high) || 1) * 0.05; low -= room; high += room; }
      const px = function (x) { return 1000 * (x - shown[0]) / (shown[1] - shown[0]); };
      const py = function (y) { return 1000 * (high - y) / (high - low); };
      svg.querySelectorAll("polyline.run").forEach(function (line, k) {
        const points = data.lines[k].map(function (p) { return px(at(p[0])).toFixed(1) + "," + py(p[1]).toFixed(1); });
        line.setAttribute("points", (points.length === 1 ? points.concat(points) : points).join(" "));
      });
      svg.querySelectorAll("line.bound").forEach(function (line, k) { line.setAttribute("y1", py(data.bounds[k])); line.setAttribute("y2", py(data.bounds[k])); });
      frame.querySelectorAll("span").forEach(function (span) { span.remove(); });
      svg.querySelectorAll("line.axis").forEach(function (line) { line.remove(); });
      let room = 0;
      ticks(low, high, false).forEach(function (tick) {
        const line = document.createElementNS(svg.namespaceURI, "line");
        [["class", "axis"], ["x1", 0], ["x2", 1000], ["y1", py(tick[0])], ["y2", py(tick[0])]].forEach(function (pair) { line.setAttribute(pair[0], pair[1]); });
        svg.insertBefore(line, svg.firstChild);
        room = Math.max(room, label("y", "top", py(tick[0]) / 1000, tick[1]));
      });
      frame.style.marginLeft = room + 1 + "ch";
      let marks = ticks(step(shown[0]), step(shown[1]), true);
      if (data.log) {
        const round = data.marks.filter(function (mark) { return at(mark) >= shown[0] && at(mark) <= shown[1]; });
        if (round.length > 2) { marks = round.map(function (mark) { return [mark, String(mark)]; }); }
      }
      marks.forEach(function (mark) { label("x", "left", px(at(mark[0])) / 1000, mark[1]); });
      svg.dataset.shown = shown.join(" ");
    }
    function zoom(a, b) { shown = [Math.max(0, Math.min(a, b)), Math.min(data.end, Math.max(a, b))]; draw(); }
    function where(event) {
      const box = svg.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
      return shown[0] + Math.min(Math.max(share, 0), 1) * (shown[1] - shown[0]);
    }
    const pick = svg.querySelector(".pick");
    let from = null;
    svg.addEventListener("pointerdown", function (event) { from = where(event); });
    svg.addEventListener("pointermove", function (event) {
      const x = where(event), y = data.y[1] - (event.clientY - svg.getBoundingClientRect().top) / svg.clientHeight * (data.y[1] - data.y[0]);
      let best = null;
      data.lines.forEach(function (line, k) {
        line.forEach(function (p) {
          const distance = [Math.abs(at(p[0]) - x), Math.abs(p[1] - y)];
          if (best === null || distance[0] < best[2][0] || (distance[0] === best[2][0] && distance[1] < best[2][1])) { best = [k, p, distance]; }
        });
      });
      if (best) { words.textContent = data.names[best[0]] + ": " + best[1][1].toPrecision(8) + data.unit + " after " + best[1][0] + " " + data.steps + " (" + best[1][2] + " s)"; }
      if (from !== null) {
        const scale = 1000 / (shown[1] - shown[0]);
        pick.setAttribute("x", (Math.min(from, x) - shown[0]) * scale); pick.setAttribute("width", Math.abs(from - x) * scale);
      }
    });
    addEventListener("pointerup", function (event) {
      if (from === null) { return; }
      const to = where(event);
      if (Math.abs(to - from) > (shown[1] - shown[0]) * 0.02) { zoom(from, to); }
      from = null; pick.setAttribute("width", 0);
    });
    const tools = course.querySelector(".tools");
    tools.querySelector(".in").addEventListener("click", function () { zoom(shown[1] - (shown[1] - shown[0]) / 2, shown[1]); });
    tools.querySelector(".all").addEventListener("click", function () { shown = [0, data.end]; draw(); });
  });
})();
