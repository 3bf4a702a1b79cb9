// The protocol, as any client speaks it. Paths are relative to the page, which may be behind a proxy's prefix.

const PING_MS = 10_000;
const STARTING_ATTEMPTS = 60;

export const base = new URL(".", location.href).href.replace(/\/$/, "");

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let key = "";

export function useKey(value) {
  key = value;
}

export async function get(path, headers) {
  return (await request("GET", path, undefined, headers)).json();
}

export async function post(path, body, headers) {
  return (await request("POST", path, body, headers)).json();
}

async function request(method, path, body, headers = {}, options = {}) {
  const given = { ...headers };
  if (key) given["X-API-Key"] = key;
  if (body !== undefined) given["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`${base}/${path}`, { method, headers: given, body: JSON.stringify(body), ...options });
  } catch {
    throw new Refused(0, "The server did not answer.");
  }
  if (!response.ok) throw new Refused(response.status, await detail(response), response);
  return response;
}

async function detail(response) {
  const text = await response.text();
  try {
    const told = JSON.parse(text).detail;
    return typeof told === "string" ? told : JSON.stringify(told);
  } catch {
    return text || `The server answered ${response.status}.`;
  }
}

export class Session {
  static async open(environment, split, index) {
    const opened = await stream(await request("POST", "create_session", {}));
    const session = new Session(environment, opened.task_id);
    try {
      await post("create", { env_name: environment, split, index }, session.headers);
    } catch (error) {
      await session.close(); // it may be open even so, where only the answer was lost
      throw error;
    }
    session.pings = setInterval(() => post("ping", {}, session.headers).catch(() => {}), PING_MS);
    return session;
  }

  constructor(environment, id) {
    this.environment = environment;
    this.headers = { "X-Session-ID": id };
  }

  tools() {
    return get(`${this.environment}/task_tools`, this.headers);
  }

  // The prompt waits for an environment that is still being set up.
  async prompt() {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await get(`${this.environment}/prompt`, this.headers);
      } catch (error) {
        if (error.status !== 503 || attempt === STARTING_ATTEMPTS) throw error;
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
  }

  // A tool's failure is an answer, {ok: false, error}; only the server's own refusals are thrown.
  async call(name, input) {
    const response = await request("POST", `${this.environment}/call`, { name, input }, this.headers);
    const told = await stream(response);
    if (told.error !== undefined) return { ok: false, error: told.error };
    if (told.end === undefined) return { ok: false, error: "The answer broke off." };
    return JSON.parse(told.end);
  }

  // `keepalive`: the request outlives the page that is being left.
  async close() {
    clearInterval(this.pings);
    await request("POST", "delete", {}, this.headers, { keepalive: true }).catch(() => {});
  }
}

// The events of an answer by name; a long result comes in chunks.
async function stream(response) {
  const told = {};
  let chunks = "";
  for (const event of (await response.text()).split(/\r?\n\r?\n/)) {
    let name = "";
    const data = [];
    for (const line of event.split(/\r?\n/)) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    }
    if (name === "chunk") chunks += data.join("\n");
    else if (name) told[name] = name === "end" ? chunks + data.join("\n") : data.join("\n");
  }
  return told;
}
