// Tabs, and what is drawn when one is opened.
const tabs = [...document.querySelectorAll('[role="tab"]')];
let gantt = null;

function panelOf(tab) {
  return document.getElementById(tab.getAttribute("aria-controls"));
}

async function render(panel) {
  if (panel.dataset.state) return;
  panel.dataset.state = "drawing";
  try {
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
    note.textContent = `This browser cannot draw the schedule (${error.message}).`;
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

isDark.addEventListener("change", () => gantt?.draw());

document.documentElement.classList.add("scripted");
if (tabs.length) open(tabs.find((tab) => `#${tab.dataset.name}` === location.hash) ?? tabs[0]);
document.documentElement.dataset.ready = "true";
