// Tabs, and what is drawn when one is opened.
const tabs = [...document.querySelectorAll('[role="tab"]')];
let gantt = null;

function panelOf(tab) {
  return document.getElementById(tab.getAttribute("aria-controls"));
}

function paintSwatches() {
  for (const swatch of document.querySelectorAll(".swatch[data-run]")) {
    swatch.style.backgroundColor = colourOfRun(Number(swatch.dataset.run));
  }
}

async function render(panel) {
  if (panel.dataset.state) return;
  panel.dataset.state = "drawing";
  try {
    const charts = model.charts.filter((chart) => panel.id === `panel-${chart.panel}`);
    for (const chart of charts) await drawChart(document.getElementById(`chart-${chart.id}`), chart);
    const root = panel.querySelector(".gantt");
    if (root) {
      gantt = new Gantt(root);
      await gantt.load();
    }
    panel.dataset.state = "drawn";
  } catch (error) {
    panel.dataset.state = "failed";
    const note = document.createElement("p");
    note.className = "failed";
    note.textContent = `This browser cannot draw the figures (${error.message}). The tables say the same in numbers.`;
    panel.append(note);
  }
}

function open(tab, { focus = false } = {}) {
  for (const other of tabs) {
    const isOpen = other === tab;
    other.setAttribute("aria-selected", String(isOpen));
    other.tabIndex = isOpen ? 0 : -1;
    panelOf(other).hidden = !isOpen;
  }
  if (focus) tab.focus();
  tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  render(panelOf(tab));
}

tabs.forEach((tab, index) => {
  tab.addEventListener("click", () => {
    history.replaceState(null, "", `#${tab.dataset.name}`);
    open(tab);
  });
  tab.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = tabs[(moves[event.key] + tabs.length) % tabs.length];
    history.replaceState(null, "", `#${next.dataset.name}`);
    open(next, { focus: true });
  });
});

isDark.addEventListener("change", async () => {
  paintSwatches();
  if (gantt) gantt.draw();
  for (const panel of document.querySelectorAll('[role="tabpanel"][data-state="drawn"]')) {
    for (const chart of model.charts.filter((one) => panel.id === `panel-${one.panel}`)) {
      await drawChart(document.getElementById(`chart-${chart.id}`), chart);
    }
  }
});

document.documentElement.classList.add("scripted");
paintSwatches();
open(tabs.find((tab) => `#${tab.dataset.name}` === location.hash) ?? tabs[0]);
document.documentElement.dataset.ready = "true";
