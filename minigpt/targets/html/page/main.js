// Starts the page, or the worker: both run from this one script.

function runPage() {
  const facts = readFacts();
  if (facts.is_base) sampleAsTraining(facts.sampling);
  const client = new Client(facts);
  installApi(client, facts);
  const start = () => openPage(client, facts);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}

async function openPage(client, facts) {
  byId("opening").textContent = openingOf(facts);
  byId("facts-line").textContent = factsLine(facts);
  for (const link of document.querySelectorAll(".of-site")) link.hidden = location.protocol === "file:";
  if (facts.version) byId("footer-text").append(` Made with minigpt ${facts.version}.`);
  const Desk = facts.kind === "encoder_decoder" ? Translator : facts.chat ? Dialogue : Writer;
  const desk = new Desk(client, facts);
  try {
    showAbout(byId("about-body"), facts);
  } catch (error) {
    // What is known about the model must not keep it from writing.
    showError(new Error(`The facts of the model cannot be shown: ${error.message}`));
  }
  if (facts.is_base) putLearningFirst();
  if (facts.snapshots.length >= 2) {
    byId("training").hidden = false;
    byId("nav-training").hidden = false;
  }
  for (const node of [byId("matches"), byId("nav-matches")]) node.hidden = facts.training_text_bytes === null;
  try {
    await client.ready;
  } catch (error) {
    byId("status").textContent = "The model could not be opened.";
    showError(error);
    return;
  }
  desk.ready();
  if (facts.kind !== "encoder_decoder") new LearningView(client, facts, () => desk.request());
  if (facts.snapshots.length >= 2) new Replay(client, facts, () => desk.request());
  if (facts.training_text_bytes !== null) new WhereFrom(client, () => byId("text").textContent);
  if (facts.kind !== "encoder_decoder") new Comparison(client, facts, () => desk.request());
}

if (typeof document === "undefined") runWorker();
else runPage();
