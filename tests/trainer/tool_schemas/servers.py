"""Tool schemas in the manner of public tool servers: files, git, browser, SQL, search, time, memory, chat."""

from typing import Any

from tests.trainer.tool_schemas.case import Case


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required is not None:
        schema["required"] = required
    return {**schema, "$schema": "http://json-schema.org/draft-07/schema#"}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


CASES: list[Case] = [
    Case(
        "read_text_file",
        _object(
            ["path"],
            path=_text("Where the file is"),
            head={"type": "number", "description": "Only so many lines from the top"},
            tail={"type": "number", "description": "Only so many lines from the end"},
        ),
        {"path": "/data/a b.txt", "head": 3},
        description="Read a file as text.\n\nGive `head` or `tail`, not both.",
    ),
    Case(
        "edit_file",
        _object(
            ["path", "edits"],
            path={"type": "string"},
            edits={
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"oldText": _text("Must match exactly"), "newText": _text("Goes in its place")},
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            dryRun={"type": "boolean", "default": False, "description": "Only show the difference"},
        ),
        {"path": "a.py", "edits": [{"oldText": "def f():\n\tpass", "newText": ""}], "dryRun": True},
    ),
    Case(
        "directory_tree",
        _object(
            ["path"],
            path={"type": "string"},
            excludePatterns={"type": "array", "items": {"type": "string"}, "default": []},
        ),
        {"path": ".", "excludePatterns": ["*.pyc"]},
    ),
    Case("list_allowed_directories", _object([]), {}),
    Case(
        "git_diff",
        _object(
            ["repo_path", "target"],
            repo_path={"title": "Repo Path", "type": "string"},
            target={"title": "Target", "type": "string"},
            context_lines={"default": 3, "title": "Context Lines", "type": "integer"},
        ),
        {"repo_path": "/r", "target": "main..HEAD", "context_lines": 0},
    ),
    Case(
        "git-log",
        _object(
            ["repo_path"],
            repo_path={"type": "string"},
            max_count={"type": "integer", "default": 10, "minimum": 1},
            start_timestamp={
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
                "description": "Since when",
            },
        ),
        {"repo_path": "/r", "start_timestamp": None},
    ),
    Case(
        "browser.click",
        _object(
            ["element", "ref"],
            element=_text("What to click, in words"),
            ref=_text("The element's reference from the last snapshot"),
            button={"type": "string", "enum": ["left", "right", "middle"]},
            modifiers={"type": "array", "items": {"type": "string", "enum": ["Alt", "Control", "Shift"]}},
        ),
        {"element": "Send", "ref": "e12", "modifiers": ["Shift"]},
    ),
    Case(
        "browser_fill_form",
        _object(
            ["fields"],
            fields={
                "type": "array",
                "description": "Which fields to fill",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "type": {"type": "string", "enum": ["textbox", "checkbox"]},
                        "value": {"type": ["string", "boolean", "null"]},
                    },
                    "required": ["name", "type"],
                },
            },
        ),
        {"fields": [{"name": "agree", "type": "checkbox", "value": True}]},
    ),
    Case(
        "browser_wait_for",
        _object(
            time={"type": "number", "description": "Seconds"}, text={"type": "string"}, textGone={"type": "string"}
        ),
        {"time": 0.5},
    ),
    Case(
        "sql/query",
        _object(
            ["sql"],
            sql=_text("One SELECT statement"),
            parameters={"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
            limit={"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        ),
        {"sql": "SELECT * FROM t WHERE a = ?", "parameters": ["x", 1, 1.5, None, False]},
    ),
    Case("describe_table", _object(["table"], table={"type": "string", "pattern": "^[A-Za-z_]+$"}), {"table": "users"}),
    Case(
        "web-search",
        _object(
            ["query"],
            query=_text("What to look for", minLength=1, maxLength=400),
            count={"type": "number", "minimum": 1, "maximum": 20, "default": 10},
            freshness={"oneOf": [{"const": "day", "title": "A day"}, {"const": "week", "title": "A week"}]},
            safe={"type": "string", "enum": ["off", "strict"], "default": "strict"},
        ),
        {"query": "ORS", "freshness": "week"},
    ),
    Case(
        "fetch",
        _object(
            ["url"],
            url=_text("", format="uri"),
            headers={"type": "object", "additionalProperties": {"type": "string"}},
            timeout={"type": "integer", "exclusiveMinimum": 0},
        ),
        {"url": "https://example.com/?a=b&c=d#e", "headers": {"Accept": "*/*", "X-Ä": "ü"}},
    ),
    Case(
        "convert_time",
        _object(
            ["source_timezone", "time", "target_timezone"],
            source_timezone=_text("IANA name, e.g. 'Europe/Berlin'"),
            time=_text("24-hour time: HH:MM"),
            target_timezone=_text("IANA name"),
        ),
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    ),
    Case(
        "create_entities",
        _object(
            ["entities"],
            entities={
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": _text("Unique"),
                        "entityType": {"type": "string"},
                        "observations": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["name", "entityType", "observations"],
                },
            },
        ),
        {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts", ""]}]},
    ),
    Case(
        "sequential_step",
        _object(
            ["thought", "number", "more"],
            thought={"type": "string"},
            number={"type": "integer", "minimum": 1},
            more={"type": "boolean"},
            revises={"type": "integer", "minimum": 1},
        ),
        {"more": False, "number": 1, "thought": "x"},
    ),
    Case(
        "create_issue",
        _object(
            ["repository", "title"],
            repository={"$ref": "#/definitions/repository"},
            title={"type": "string"},
            labels={"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            milestone={"type": "integer", "nullable": True},
        )
        | {
            "definitions": {
                "repository": {
                    "type": "object",
                    "description": "Which repository",
                    "properties": {"owner": {"type": "string"}, "name": {"type": "string"}},
                    "required": ["owner", "name"],
                }
            }
        },
        {"repository": {"owner": "o", "name": "n"}, "title": "t", "milestone": None},
    ),
    Case(
        "post_message",
        _object(
            ["channel", "blocks"],
            channel={"type": "string"},
            blocks={
                "type": "array",
                "items": {
                    "oneOf": [
                        {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
                        {"type": "object", "properties": {"type": {"const": "rule"}}, "required": ["type"]},
                    ]
                },
            },
            reply_broadcast={"type": ["boolean", "null"]},
        ),
        {"channel": "C1", "blocks": [{"type": "text", "text": "a"}], "reply_broadcast": None},
    ),
    Case(
        "bash",
        _object(["command"], command={"type": "string"}, restart={"type": "boolean"}),
        {"command": "printf '%s\\n' \"$HOME\""},
    ),
    Case("set_temperature", _object(["celsius"], celsius={"type": "number", "multipleOf": 0.5}), {"celsius": 21.5}),
    Case(
        "book_flight",
        _object(
            ["from", "to", "passengers"],
            **{"from": _text("Airport", minLength=3, maxLength=3), "to": _text("Airport")},
            passengers={"type": "array", "minItems": 1, "items": {"$ref": "#/properties/lead"}},
            lead={"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        ),
        {"from": "BER", "to": "NRT", "passengers": [{"name": "Ada", "age": 36}]},
        {"from_": True, "to": True, "passengers": True, "lead": False},
    ),
]
