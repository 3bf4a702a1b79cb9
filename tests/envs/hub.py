"""A stand-in of the Hugging Face Hub's HTTP API, as far as making a Space needs it: `python hub.py` serves on $PORT.

It keeps what was sent and gives it out at /_seen. A Space's name says how it fares: `broken` fails to build, `sick`
never answers, `asleep` wakes when it is visited, `paused` runs after a restart, `crashing` ends after its start. Of
`bumpy` it can say nothing the first three times: the Hub is away, overrun, and gone in the middle of an answer.
The stages of those in STAGES follow one another, a step whenever it is asked after a commit.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

TOKEN = "hf_test_token_9d2e"
# Each a stage and whose build it is: "old" or "new", "" where the Hub does not say. The last one stays.
STAGES = {
    "replaced": [("RUNNING", "old"), ("RUNNING_BUILDING", "old"), ("RUNNING", "old"), ("RUNNING", "new")],
    "fails": [("RUNNING", "old"), ("BUILDING", "old"), ("BUILD_ERROR", "old")],
    "fails-untold": [("RUNNING", ""), ("BUILDING", ""), ("BUILD_ERROR", "")],
    "mended": [("BUILD_ERROR", "old"), ("BUILDING", "new"), ("RUNNING", "new")],
    "mended-untold": [("RUNTIME_ERROR", ""), ("BUILDING", ""), ("RUNNING", "")],
    "steady-untold": [("RUNNING", "")],
    "stays-old": [("RUNNING", "old")],
}
app = FastAPI()
bumps = [
    JSONResponse({"error": "Bad Gateway"}, 502),
    JSONResponse({"error": "Too many requests"}, 429),
    JSONResponse({}, headers={"Content-Length": "999"}),
]
seen: list[dict[str, Any]] = []
spaces: dict[str, dict[str, Any]] = {
    "ada/chatbot": {"private": False, "files": {".gitattributes": "", "README.md": "", "app.py": "print()"}}
}


@app.middleware("http")
async def note(request: Request, go_on: Any) -> Any:
    if request.url.path.startswith("/_"):
        return await go_on(request)
    body = await request.body()
    authorization = request.headers.get("authorization")
    seen.append(
        {
            "method": request.method,
            "path": request.url.path,
            "authorization": authorization,
            "body": None if not body else [json.loads(line) for line in body.splitlines()],
        }
    )
    if request.url.path.startswith("/api/") and authorization != f"Bearer {TOKEN}":
        return JSONResponse({"error": "Invalid credentials in Authorization header"}, 401)
    return await go_on(request)


@app.get("/_seen")
def everything() -> list[dict[str, Any]]:
    return seen


@app.post("/api/repos/create")
async def create(request: Request) -> Any:
    asked = await request.json()
    repo = f"{asked['organization']}/{asked['name']}"
    if asked["organization"] == "strangers":
        return JSONResponse({"error": "You don't have the rights to create a Space under this namespace"}, 403)
    if asked["organization"] == "teapots":
        return JSONResponse({"error": f"no tea for {request.headers['authorization']}"}, 418)
    page = str(request.base_url).rstrip("/") + f"/spaces/{repo}"
    if repo in spaces:
        return JSONResponse({"error": "You already created this Space", "url": page}, 409)
    spaces[repo] = {
        "private": asked.get("visibility") == "private",
        "files": {".gitattributes": ""},
        "visits": 0,
        "commits": 0,
        "key": False,
    }
    return {"url": page, "name": repo}


@app.get("/api/spaces/{owner}/{name}")
@app.get("/api/spaces/{owner}/{name}/revision/main")
def info(request: Request, owner: str, name: str) -> Any:
    space = spaces[f"{owner}/{name}"]
    return {
        "id": f"{owner}/{name}",
        "private": space["private"],
        "sdk": "docker",
        "sha": _sha(space.get("commits", 0)),
        "host": str(request.base_url).rstrip("/") + f"/running/{owner}/{name}",
        "siblings": [{"rfilename": file} for file in space["files"]],
    }


@app.get("/api/spaces/{owner}/{name}/tree/main")
def tree(owner: str, name: str) -> Any:
    files = spaces[f"{owner}/{name}"]["files"]
    return [{"type": "file", "path": file, "size": len(text), "oid": "0" * 40} for file, text in files.items()]


@app.put("/api/spaces/{owner}/{name}/settings")
async def settings(request: Request, owner: str, name: str) -> Any:
    spaces[f"{owner}/{name}"]["private"] = (await request.json())["visibility"] == "private"
    return {}


@app.post("/api/spaces/{owner}/{name}/secrets")
def secrets(owner: str, name: str) -> Any:
    spaces[f"{owner}/{name}"]["key"] = True
    return {}


@app.post("/api/validate-yaml")
def validate() -> Any:
    return {"errors": [], "warnings": []}


@app.post("/api/spaces/{owner}/{name}/preupload/main")
async def preupload(request: Request) -> Any:
    asked = (await request.json())["files"]
    return {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]}


@app.post("/api/spaces/{owner}/{name}/commit/main")
async def commit(request: Request, owner: str, name: str) -> Any:
    files = spaces[f"{owner}/{name}"]["files"]
    for line in (await request.body()).splitlines():
        entry = json.loads(line)
        if entry["key"] == "file":
            files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"]).decode()
        elif entry["key"] == "deletedFile":
            del files[entry["value"]["path"]]
    space = spaces[f"{owner}/{name}"]
    space["commits"] += 1
    space["stages"] = list(STAGES.get(name, []))
    sha = _sha(space["commits"])
    page = str(request.base_url).rstrip("/") + f"/spaces/{owner}/{name}/commit/{sha}"
    return {"success": True, "commitOid": sha, "commitUrl": page}


def _sha(commits: int) -> str:
    return f"{commits:040x}"


@app.get("/api/spaces/{owner}/{name}/runtime")
def runtime(owner: str, name: str) -> Any:
    space = spaces[f"{owner}/{name}"]
    if name == "bumpy" and bumps:
        return bumps.pop(0)
    if stages := space["stages"]:
        stage, whose = stages.pop(0) if len(stages) > 1 else stages[0]
        sha = {"sha": _sha(space["commits"] - (whose == "old"))} if whose else {}
        return {"stage": stage, "hardware": {}, **sha}
    running = "RUNNING" if space["visits"] else {"asleep": "SLEEPING", "paused": "PAUSED"}.get(name, "RUNNING")
    sha = {"sha": _sha(space["commits"])}
    return {"stage": {"broken": "BUILD_ERROR", "crashing": "RUNTIME_ERROR"}.get(name, running), "hardware": {}, **sha}


@app.post("/api/spaces/{owner}/{name}/restart")
def restart(owner: str, name: str) -> Any:
    spaces[f"{owner}/{name}"]["visits"] += 1
    return {"stage": "RUNNING", "hardware": {}}


@app.get("/api/spaces/{owner}/{name}/logs/{kind}")
def logs(kind: str) -> StreamingResponse:
    lines = [f"{kind} line {number} {TOKEN if number == 29 else ''}" for number in range(30)]
    events = [f"data: {json.dumps({'data': line, 'timestamp': '2026-01-01T00:00:00Z'})}\n\n" for line in lines]
    return StreamingResponse(iter(events), media_type="text/event-stream")


@app.get("/running/{owner}/{name}/health")
def health(request: Request, owner: str, name: str) -> Any:
    space = spaces[f"{owner}/{name}"]
    if space["private"] and request.headers.get("authorization") != f"Bearer {TOKEN}":
        return JSONResponse({"error": "Repository not found"}, 404)
    space["visits"] += 1
    return JSONResponse({"status": "ok"}, 503 if name == "sick" else 200)


@app.get("/running/{owner}/{name}/list_environments")
def environments(owner: str, name: str) -> Any:
    return JSONResponse({"detail": "a key"}, 401) if spaces[f"{owner}/{name}"]["key"] else ["echo"]


@app.get("/health")
def own_health() -> dict[str, str]:
    return {"status": "ok"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="error", access_log=False)
