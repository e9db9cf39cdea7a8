// Curves, drawn by plotly.js. It is unpacked at the first look at a figure; curves keep all their points and are
// thinned to what the screen shows, anew after each zoom.
const MEAN_SPANS = 240;

let plotly = null;

function loadPlotly() {
  if (plotly === null) {
    plotly = gunzip("plotly").then(async (response) => {
      const script = document.createElement("script");
      script.textContent = await response.text();
      document.head.append(script);
      return window.Plotly;
    });
  }
  return plotly;
}

// First, lowest, highest and last point of each column of pixels between low and high; x ascends.
function thin(x, y, low, high, columns) {
  let first = 0;
  let last = x.length;
  while (first + 1 < last && x[first + 1] <= low) first++;
  while (last - 1 > first && x[last - 2] >= high) last--;
  if (last - first <= 4 * columns) return { x: x.slice(first, last), y: y.slice(first, last) };
  const kept = [];
  const width = (high - low) / columns;
  let i = first;
  while (i < last) {
    const end = Math.floor((x[i] - low) / width) * width + low + width;
    const start = i;
    let lowest = i;
    let highest = i;
    for (i++; i < last && x[i] < end; i++) {
      if (y[i] < y[lowest]) lowest = i;
      if (y[i] > y[highest]) highest = i;
    }
    for (const j of [...new Set([start, lowest, highest, i - 1])].sort((a, b) => a - b)) kept.push(j);
  }
  return { x: kept.map((j) => x[j]), y: kept.map((j) => y[j]) };
}

// Means by time over equal spans of a step function, where it has too many steps to be read.
function average(x, y, low, high) {
  let first = 0;
  let last = x.length;
  while (first + 1 < last && x[first + 1] <= low) first++;
  while (last - 1 > first && x[last - 2] >= high) last--;
  if (last - first <= 2 * MEAN_SPANS) return { x: x.slice(first, last), y: y.slice(first, last) };
  const width = (high - low) / MEAN_SPANS;
  const sums = new Float64Array(MEAN_SPANS);
  for (let i = first; i + 1 < last; i++) {
    let from = Math.max(low, x[i]);
    const until = Math.min(high, x[i + 1]);
    while (from < until) {
      const span = Math.min(MEAN_SPANS - 1, Math.floor((from - low) / width + 1e-9));
      const border = span === MEAN_SPANS - 1 ? until : Math.min(until, low + (span + 1) * width);
      sums[span] += y[i] * (border - from);
      if (!(border > from)) break;
      from = border;
    }
  }
  const edges = Array.from(sums, (_, span) => low + span * width);
  const means = Array.from(sums, (sum) => sum / width);
  return { x: [...edges, high], y: [...means, means[MEAN_SPANS - 1]] };
}

function chartLayout(chart) {
  const text = themed("--text");
  const axis = {
    gridcolor: themed("--line"),
    linecolor: themed("--line"),
    zerolinecolor: themed("--line"),
    automargin: true,
    ticks: "outside",
    tickcolor: themed("--line"),
  };
  const y = { ...axis, title: { text: chart.y.title, standoff: 6 } };
  if (chart.y.from0) y.rangemode = "tozero";
  if (chart.y.range) y.range = chart.y.range;
  if (chart.y.log2) Object.assign(y, powersOfTwo());
  return {
    autosize: true,
    height: innerWidth < 600 ? 320 : 380,
    margin: { l: 8, r: 12, t: 34, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: text },
    xaxis: { ...axis, title: { text: chart.x.title, standoff: 8 }, ...logTicks(chart) },
    yaxis: y,
    hovermode: "closest",
    hoverlabel: { namelength: -1 },
    dragmode: isTouch.matches ? false : "zoom",
    showlegend: false,
    modebar: { bgcolor: "rgba(0,0,0,0)", color: themed("--faint"), activecolor: text },
  };
}

function powersOfTwo() {
  const values = Array.from({ length: 25 }, (_, i) => i - 12);
  return { tickvals: values, ticktext: values.map((power) => (power < 0 ? `1/${2 ** -power}` : String(2 ** power))) };
}

// The numbers of a logarithmic axis are logarithms already, so that zooming and thinning stay linear.
function logTicks(chart) {
  if (!chart.x.log) return {};
  const values = [];
  const texts = [];
  for (let power = -3; power <= 12; power++) {
    values.push(power);
    texts.push(power < 6 ? numberText(10 ** power) : `10<sup>${power}</sup>`);
  }
  return { tickvals: values, ticktext: texts };
}

async function drawChart(element, chart) {
  const Plotly = await loadPlotly();
  const data = await Promise.all(chart.series.map((one) => unpack(one.pack)));
  let low = Infinity;
  let high = -Infinity;
  for (const one of data) {
    if (!one.x.length) continue;
    low = Math.min(low, one.x[0]);
    high = Math.max(high, one.x[one.x.length - 1]);
  }
  const columns = () => Math.max(200, Math.min(1000, Math.round(element.clientWidth)));
  const fit = (one, from, to) => (chart.means ? average(one.x, one.y, from, to) : thin(one.x, one.y, from, to, columns()));
  const traces = chart.series.map((one, i) => {
    const name = one.name ?? model.runs[one.run].name;
    return {
      ...fit(data[i], low, high),
      type: "scatter",
      mode: chart.mode ?? "lines",
      name: escapeText(name),
      line: { shape: chart.shape, width: 1.6, color: colourOfRun(one.run), dash: dashOfRun(one.run) },
      marker: { size: 7, color: colourOfRun(one.run) },
      customdata: chart.y.log2 ? Array.from(data[i].y, (value) => 2 ** value) : undefined,
      hovertemplate: chart.y.log2 ? "%{customdata:.3f} in window %{x}<extra>%{fullData.name}</extra>" : chart.x.log ? "%{y:.2f} %<extra>%{fullData.name}</extra>" : "%{y:,.4~g} at %{x:,.4~g}<extra>%{fullData.name}</extra>",
    };
  });
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: true,
    scrollZoom: false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  await Plotly.newPlot(element, traces, chartLayout(chart), config);
  drawLegend(element, chart);
  element.removeAllListeners("plotly_relayout");
  element.on("plotly_relayout", (change) => {
    if (!("xaxis.range[0]" in change) && !("xaxis.range" in change) && !("xaxis.autorange" in change)) return;
    const all = change["xaxis.autorange"];
    const [from, to] = all ? [low, high] : element.layout.xaxis.range;
    const thinned = data.map((one) => fit(one, from, to));
    Plotly.restyle(element, { x: thinned.map((one) => one.x), y: thinned.map((one) => one.y) });
  });
}

// One button per curve, which hides and shows it.
function drawLegend(element, chart) {
  const legend = document.getElementById(`legend-${chart.id}`);
  const names = chart.series.map((one) => one.name ?? model.runs[one.run].name);
  legend.replaceChildren();
  if (names.length < 2) return;
  names.forEach((name, index) => {
    const button = document.createElement("button");
    const line = document.createElement("span");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    line.className = `line ${chart.mode ?? dashOfRun(chart.series[index].run)}`;
    line.style.color = colourOfRun(chart.series[index].run);
    button.append(line, name);
    button.addEventListener("click", () => {
      const isShown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isShown));
      window.Plotly.restyle(element, { visible: isShown }, [index]);
    });
    legend.append(button);
  });
}

// plotly.js reads a little HTML in texts; names are shown as they are.
function escapeText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
