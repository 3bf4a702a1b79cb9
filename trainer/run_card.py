"""A run folder's README.md, for whoever opens the folder and knows nothing of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer.report_run import number, record, records
from trainer.report_summary import DASH, interval
from trainer.report_text import one_line, public_url, readable, without_userinfo

HOLDS = {
    "report.html": "charts, errors, times and sampled rollouts of the run: open it in a browser",
    "model": "the trained model and its tokenizer",
    "run.json": "what was run, how far it came and how it ended",
    "config.yaml": "the configuration; `ors-train train --config config.yaml --output_dir NEW` runs it again",
    "metrics.jsonl": "a line for each logged step",
    "rollouts.jsonl": "a line for each rollout: messages, tool calls, rewards, why it ended",
    "eval.json": "success on held-out tasks",
    "error.txt": "the traceback of the error that ended the run",
}
AGAIN = """
## Using the model

In this folder:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("model")
tokenizer = AutoTokenizer.from_pretrained("model")
```

To evaluate it again, with the environments served where `config.yaml` says and the variables set that it names
(`--split` plays other tasks):

```bash
ors-train eval --model model --config config.yaml
```
"""


def card(folder: Path, facts: Mapping[str, Any], evaluations: Mapping[str, Any]) -> str:
    """The README.md of a run.

    Args:
        folder: The run folder; what is in it is listed.
        facts: As in run.json, whatever is there of them.
        evaluations: As in eval.json.
    """
    done, steps = (f"{number(facts.get(key)) or 0:.0f}" for key in ("step", "steps"))
    message = f": {_code(facts['message'])}" if facts.get("message") else ""
    lines = [
        f"# {_plain(folder.resolve().name)}",
        "",
        f"The model {_code(facts.get('model'))}, trained with GRPO on environments by `ors-train`.",
        "",
        f"Status: {_plain(facts.get('status'))}{message}",
        f"({done} of {steps} steps, seed {_plain(facts.get('seed'))}, begun {_plain(facts.get('started'))}).",
        "",
        "| environment | address | split | tasks |",
        "| --- | --- | --- | --- |",
        *map(_environment, records(facts.get("environments"))),
        *_success(evaluations),
        "",
        "## What is here",
        "",
        *(f"- `{name}`: {words}" for name, words in HOLDS.items() if (folder / name).exists()),
        "- `checkpoint-N`: the run after step N, to go on from with `--resume`",
    ]
    return "\n".join(lines) + "\n" + (AGAIN if (folder / "model").is_dir() else "")


def _environment(row: Mapping[str, Any]) -> str:
    where = public_url(str(row.get("url")))
    cells = (_code(row.get("name")), _code(where), _code(row.get("split")), _plain(row.get("num_tasks")))
    return f"| {' | '.join(cells)} |"


def _success(evaluations: Mapping[str, Any]) -> Iterator[str]:
    moments = [moment for moment in ("before", "after") if record(evaluations.get(moment))]
    if not moments:
        return
    last = record(evaluations[moments[-1]])
    split, tasks = _code(last.get("split")), _plain(last.get("tasks"))
    yield from ("", f"Success of sampled rollouts on {tasks} tasks of {split}, with the 95 % interval:", "")
    yield f"| | {' | '.join(f'{moment} training' for moment in moments)} |"
    yield f"| --- |{' --- |' * len(moments)}"
    found = [record(record(evaluations[moment]).get("sampled")) for moment in moments]
    yield f"| all | {' | '.join(map(_rate, found))} |"
    for name in record(found[-1].get("environments")):
        of_it = (record(record(sampled.get("environments")).get(name)) for sampled in found)
        yield f"| {_code(name)} | {' | '.join(map(_rate, of_it))} |"


def _rate(found: Mapping[str, Any]) -> str:
    success = number(found.get("success"))
    return DASH if success is None else f"{success:.2f} ({interval(dict(found)) or DASH})"


def _code(value: object) -> str:
    return f"`{_plain(value).replace('`', chr(39))}`"


def _plain(value: object) -> str:
    return one_line(readable(without_userinfo(str(value))), 300).replace("|", "\\|")
