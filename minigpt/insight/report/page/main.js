// Builds the page from the data in it.

const OPEN_PARTS = [overviewSection, verdictsSection, samplesSection, memorizationSection];
const FOLDED_PARTS = [figuresSection, lossesSection, breakdownSection, passagesSection, textSection, certificatesSection, settingsSection];

function fillPage(report) {
  const [run] = report.runs;
  const compared = report.runs.length > 1;
  byId("title-text").textContent = compared ? `Comparison of ${report.runs.length} runs` : readable(run.name || "Report");
  const written = `written ${new Date(report.written * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium" })}`;
  const facts = compared ? [written] : [stateLine(run), written];
  byId("facts-line").append(...facts.map((fact) => make("span", {}, fact)));
  byId("footer-text").append(` Written by minigpt ${report.version}.`);
  const builders = compared
    ? COMPARISON_PARTS.map((build) => () => build(report.runs))
    : [...OPEN_PARTS.map((build) => () => build(run)), ...FOLDED_PARTS.map((build) => () => folded(build(run)))];
  for (const build of builders) addPart(build);
  for (const part of document.querySelectorAll("main > section")) {
    const link = make("a", { href: `#${part.id}` }, part.querySelector("h2").textContent);
    link.addEventListener("click", () => unfold(link.hash));
    byId("nav").append(make("li", {}, link));
  }
  unfold(location.hash);
}

// A part that cannot be shown does not keep the others from being shown.
function addPart(build) {
  try {
    const part = build();
    if (part) byId("main").append(part);
  } catch (error) {
    byId("main").append(make("p", { class: "alert" }, `A part of the report cannot be shown: ${error.message}`));
  }
}

function openReport() {
  const report = JSON.parse(byId("report").textContent);
  fillPage(report);
  if (report.refreshes) new Refresh(report.runs[0], report.written);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", openReport);
else openReport();
