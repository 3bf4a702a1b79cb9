import { element, fieldsOf } from "./form.js";
import { base, get, post, Session, useKey } from "./ors.js";

const LONG = 4000;
const WIDEST_LINE = 160;
const TABLE = { className: "table", role: "region", "aria-label": "Table", tabIndex: 0 };
const at = (id) => document.getElementById(id);

let about;
let environment;
let counts = {};
let session = null;

async function begin() {
  about = await (await fetch(`${base}/page/about.json`)).json();
  for (const { name, title } of about.environments) at("environment").append(new Option(title, name));
  at("which").hidden = about.environments.length < 2;
  at("access").hidden = !about.key_needed;
  at("environment").addEventListener("change", () => choose(at("environment").value));
  at("key-form").addEventListener("submit", (event) => submit(event, tryKey));
  at("start-form").addEventListener("submit", (event) => submit(event, start));
  at("split").addEventListener("change", limitIndex);
  at("random").addEventListener("click", () => {
    at("index").value = Math.floor(Math.random() * (counts[at("split").value] ?? 1));
  });
  at("stop").addEventListener("click", () => end("The session is closed."));
  at("copy").addEventListener("click", copy);
  addEventListener("pagehide", () => session?.close());
  await choose(about.environments[0].name);
}

async function choose(name) {
  await end();
  at("episode").hidden = true;
  environment = about.environments.find((one) => one.name === name);
  at("title").textContent = `${environment.emoji} ${environment.title}`.trim();
  document.title = environment.title;
  describe(environment.description);
  const access = about.key_needed ? ', api_key="YOUR KEY"' : "";
  at("training").textContent =
    `from trainer import OpenRewardSpec\nspec = OpenRewardSpec("${base}", env_name="${name}"${access})`;
  if (!about.key_needed || at("key").value) await loadSplits().catch(fail);
  else showSplits([]);
}

// Backquotes are the one piece of Markdown that a description's first paragraph tends to have.
function describe(text) {
  const parts = text.split("`").map((part, index) => (index % 2 ? element("code", { textContent: part }) : part));
  at("description").replaceChildren(...parts);
}

async function tryKey() {
  useKey(at("key").value);
  try {
    await loadSplits();
    at("key-state").textContent = "The key is accepted.";
    at("failure").hidden = true;
  } catch (error) {
    showSplits([]);
    at("key-state").textContent = error.status === 401 ? "The server refused this key." : error.message;
  }
  at("key-state").classList.toggle("refused", at("tasks").hidden);
}

async function loadSplits() {
  const { name } = environment;
  const splits = await get(`${name}/splits`);
  const numbers = await Promise.all(splits.map((split) => post(`${name}/num_tasks`, { split: split.name })));
  showSplits(splits.map((split, index) => ({ name: split.name, count: numbers[index].num_tasks })));
}

function showSplits(splits) {
  counts = Object.fromEntries(splits.map(({ name, count }) => [name, count]));
  at("splits").replaceChildren(
    ...splits.map(({ name, count }) =>
      element(
        "tr",
        {},
        element("th", { scope: "row", textContent: name }),
        element("td", { textContent: count.toLocaleString("en") }),
      ),
    ),
  );
  at("split").replaceChildren(...splits.map(({ name }) => new Option(name)));
  at("tasks").hidden = at("play").hidden = splits.length === 0;
  limitIndex();
}

function limitIndex() {
  at("index").max = Math.max(0, (counts[at("split").value] ?? 1) - 1);
}

async function start() {
  await end();
  at("calls").replaceChildren();
  at("tools").replaceChildren();
  at("outcome").hidden = true;
  at("episode").hidden = true;
  session = await Session.open(environment.name, at("split").value, at("index").valueAsNumber);
  try {
    const [prompt, tools] = await Promise.all([session.prompt(), session.tools()]);
    at("prompt").replaceChildren(...blocks(prompt));
    at("episode").hidden = false;
    at("stop").hidden = false;
    showTools(tools);
  } catch (error) {
    // Its pings would keep open what nobody can see, or stop.
    await end();
    at("episode").hidden = true;
    throw error;
  }
}

async function end(told = "") {
  const ended = session;
  session = null;
  at("tools").replaceChildren();
  at("stop").hidden = true;
  if (ended) {
    await ended.close();
    if (told) conclude(told);
  }
}

function conclude(text, kind = "") {
  at("outcome").textContent = text;
  at("outcome").className = `notice ${kind}`;
  at("outcome").hidden = false;
}

function showTools({ tools, terminal_tool: terminal }) {
  const all = [...tools];
  if (terminal) all.push(answerTool(terminal));
  const forms = all.map(toolForm);
  const tabs = element("div", { className: "tabs", role: "tablist", "aria-label": "Tools" });
  all.forEach((tool, index) => {
    const tab = element("button", { type: "button", textContent: tool.label ?? tool.name, id: `tab-${index}` });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", `tool-${index}`);
    tab.addEventListener("click", () => pick(index));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) pick((index + step + all.length) % all.length, true);
    });
    tabs.append(tab);
    forms[index].id = `tool-${index}`;
    forms[index].setAttribute("role", "tabpanel");
    forms[index].setAttribute("aria-labelledby", `tab-${index}`);
  });

  function pick(chosen, focusTab = false) {
    [...tabs.children].forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
      forms[index].hidden = index !== chosen;
    });
    if (focusTab) tabs.children[chosen].focus();
  }

  at("tools").replaceChildren(tabs, ...forms);
  pick(0);
  (forms[0]?.querySelector("textarea, input, select") ?? tabs.firstChild)?.focus({ preventScroll: true });
}

// Where the model's final message is graded, the page asks for that message.
function answerTool({ name, arg, description }) {
  const properties = arg ? { [arg]: { type: "string" } } : {};
  const schema = { type: "object", properties, required: Object.keys(properties) };
  return { name, label: "final answer", description, input_schema: schema };
}

function toolForm(tool) {
  const { nodes, read } = fieldsOf(tool.input_schema);
  const button = element("button", { textContent: `Call ${tool.name}` });
  const form = element("form", {}, element("p", { className: "hint", textContent: tool.description }), ...nodes, button);
  form.addEventListener("submit", (event) => submit(event, () => call(tool.name, read())));
  return form;
}

async function call(name, input) {
  const asked = session;
  const result = await asked.call(name, input);
  if (asked !== session) return;
  at("calls").append(callItem(name, input, result));
  at("calls").lastElementChild.scrollIntoView({ block: "nearest" });
  if (result.ok && result.output.finished) {
    const { reward } = result.output;
    await end();
    conclude(`The episode is over${reward === null ? "." : `: reward ${reward}.`}`, reward > 0 ? "good" : "");
    at("start").focus({ preventScroll: true });
  }
}

function callItem(name, input, result) {
  const given = Object.entries(input).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const head = element("div", { className: "call" }, element("code", { textContent: `${name}(${given.join(", ")})` }));
  if (!result.ok) return element("li", {}, head, element("div", { className: "blocks failed", textContent: result.error }));
  const { blocks: shown, reward, metadata } = result.output;
  const told = reward === null ? "no reward" : `reward ${reward}`;
  head.append(element("span", { className: "reward", textContent: told }));
  const item = element("li", {}, head, element("div", { className: "blocks" }, ...blocks(shown)));
  if (metadata && Object.keys(metadata).length) item.append(folded("Metadata", JSON.stringify(metadata, null, 2)));
  return item;
}

function blocks(all) {
  return all.map((block) => {
    if (block.type === "image") return element("img", { src: `data:${block.mimeType};base64,${block.data}`, alt: "" });
    if (isTable(block.text)) return element("div", { ...TABLE, textContent: block.text });
    if (block.text.length <= LONG) return element("div", { textContent: block.text });
    const rest = folded("Show the rest", block.text.slice(LONG));
    return element("div", {}, block.text.slice(0, LONG), rest);
  });
}

// Wrapped as prose is, aligned columns would be unreadable; these lines are kept, and scrolled where they are too wide.
function isTable(text) {
  const lines = text.split("\n");
  const aligned = lines.filter((line) => / [|] |\S {2,}\S/.test(line));
  return text.length <= LONG && aligned.length > 1 && lines.every((line) => line.length <= WIDEST_LINE);
}

function folded(summary, text) {
  return element("details", {}, element("summary", { textContent: summary }), element("pre", { textContent: text }));
}

// One thing at a time: while a form's work goes on, its button waits.
async function submit(event, work) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button:not([type])");
  if (form.dataset.busy) return;
  form.dataset.busy = "yes";
  button.setAttribute("aria-busy", "true");
  at("play-failure").hidden = true;
  try {
    await work();
  } catch (error) {
    at("play-failure").textContent = error.message;
    at("play-failure").hidden = false;
    if (error.status === 404 || error.status === 410) await end("The session is gone.");
  } finally {
    delete form.dataset.busy;
    button.removeAttribute("aria-busy");
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(at("training").textContent);
    at("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(at("training"));
    at("copy").textContent = "Selected";
  }
  setTimeout(() => (at("copy").textContent = "Copy"), 2000);
}

function fail(error) {
  at("failure").textContent = error.message;
  at("failure").hidden = false;
}

begin().catch(fail);
