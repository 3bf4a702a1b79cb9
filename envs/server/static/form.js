// A form from a tool's JSON Schema: one field a property, JSON text where a schema is more than a form can say.

let fields = 0;

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "for" || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

// Returns the nodes of the fields and a function that reads the arguments; it throws where a field's JSON is none.
export function fieldsOf(schema) {
  return objectField(schema ?? {}, schema ?? {});
}

function objectField(schema, root) {
  const required = new Set(schema.required ?? []);
  const parts = Object.entries(schema.properties ?? {}).map(([name, part]) => {
    const field = fieldOf(name, resolve(part, root), root, required.has(name));
    return { name, ...field };
  });
  const read = () => {
    const values = {};
    for (const part of parts) {
      const value = part.read();
      if (value !== undefined) values[part.name] = value;
    }
    return values;
  };
  return { nodes: parts.flatMap((part) => part.nodes), read };
}

// Follows a reference, and takes null out of a choice: an empty field says it.
function resolve(schema, root) {
  if (schema.$ref?.startsWith("#/")) {
    const path = schema.$ref.slice(2).split("/").map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
    const target = path.reduce((value, part) => value?.[part], root) ?? {};
    return { ...target, ...schema, $ref: undefined };
  }
  const choices = (schema.anyOf ?? schema.oneOf ?? []).filter((choice) => choice.type !== "null");
  if (choices.length === 1) return resolve({ ...choices[0], ...schema, anyOf: undefined, oneOf: undefined }, root);
  return schema;
}

function fieldOf(name, schema, root, required) {
  if (schema.type === "object" && schema.properties && required) {
    const inner = objectField(schema, root);
    const nodes = [element("fieldset", {}, element("legend", { textContent: name }), ...hint(schema), ...inner.nodes)];
    return { nodes, read: inner.read };
  }
  fields += 1;
  const id = `field-${fields}`;
  const { control, read } = controlOf(schema, required);
  control.id = id;
  control.name = name;
  if (schema.description) control.setAttribute("aria-describedby", `${id}-hint`);
  if (schema.default !== undefined && "placeholder" in control) control.placeholder = shown(schema.default);
  const label = element("label", { for: id, textContent: name });
  if (!required) label.append(element("span", { className: "optional", textContent: " (optional)" }));
  return { nodes: [element("div", { className: "field" }, label, control, ...hint(schema, `${id}-hint`))], read };
}

function hint(schema, id = "") {
  return schema.description ? [element("p", { className: "hint", id, textContent: schema.description })] : [];
}

function controlOf(schema, required) {
  const choices = schema.const !== undefined ? [schema.const] : schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  if (choices) return choiceControl(choices, required);
  if (schema.type === "integer" || schema.type === "number") return numberControl(schema, required);
  if (schema.type === "string") return textControl(required, (text) => text, required);
  return textControl(required, JSON.parse, false, "JSON");
}

function choiceControl(choices, required) {
  const control = element("select", { required });
  if (!required) control.append(element("option", { value: "", textContent: "(not given)" }));
  choices.forEach((choice, at) => control.append(element("option", { value: String(at), textContent: shown(choice) })));
  return { control, read: () => (control.value === "" ? undefined : choices[Number(control.value)]) };
}

function numberControl(schema, required) {
  const control = element("input", { type: "number", required, step: schema.type === "integer" ? "1" : "any" });
  if (schema.minimum !== undefined) control.min = schema.minimum;
  if (schema.maximum !== undefined) control.max = schema.maximum;
  return { control, read: () => (control.value === "" ? undefined : Number(control.value)) };
}

function textControl(required, parse, emptyCounts, placeholder = "") {
  const control = element("textarea", { rows: 1, placeholder, spellcheck: false, required: required && !emptyCounts });
  const grow = () => {
    control.style.height = "auto";
    control.style.height = `${Math.min(control.scrollHeight + 2, 320)}px`;
  };
  control.addEventListener("input", grow);
  // As in a chat: Enter sends, Shift+Enter begins a new line.
  control.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      control.form.requestSubmit();
    }
  });
  const read = () => {
    if (control.value === "" && !emptyCounts) return undefined;
    try {
      return parse(control.value);
    } catch {
      throw new Error(`${control.name}: this is not valid JSON.`);
    }
  };
  return { control, read };
}

function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
