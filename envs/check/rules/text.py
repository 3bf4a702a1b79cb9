"""Text comes through unchanged: tried with a tool whose result repeats its argument, so what should come is known."""

from __future__ import annotations

from envs.check.rule import EVENT_STREAM, EVENTS, Evidence, NotSeen, rule
from envs.check.subject import Call, Session, Subject
from envs.check.survey import Survey

_BEGIN, _END = "ors-check-begin", "ors-check-end"
_LONG = 10_000
# The line and paragraph separators and NEL end a line for some libraries, and never in an event stream.
_UNICODE = "äß 漢字 🙂 \u2028 \u2029 \u0085 \u00a0 e\u0301"


@rule(
    "ORS-054",
    "White space comes through",
    "A result's white space is kept, at the borders of chunks and lines too: "
    "a client takes away one space after the colon and no more.",
    EVENT_STREAM,
)
async def white_space(subject: Subject, survey: Survey) -> Evidence:
    # Runs longer than a chunk, so that one of them meets every border, whatever the chunk's size.
    text = f"{_BEGIN}{' ' * _LONG}a\n    b\t\n\n{' ' * _LONG}{_END}"
    async with subject.session() as session:
        await _repeats(session, survey, f"{_BEGIN} a  b\n    c\t{_END}")
        call, came = await _echo(session, survey, text)
    if came == text:
        return Evidence(call.stream.sent, f"{len(text):,} characters, unchanged")
    if came.split() != text.split():
        raise NotSeen(f"the tool {call.tool!r} does not repeat a long text as it is: {call.stream.got}")
    raise call.stream.failed(f"{len(text):,} characters sent, {len(came):,} came back")


@rule(
    "ORS-055",
    "A long result comes through",
    "A result longer than 4,096 characters comes as several events and is whole when they are joined.",
    EVENTS,
)
async def long_result(subject: Subject, survey: Survey) -> Evidence:
    text = f"{_BEGIN}-{'-'.join(str(number) for number in range(_LONG // 4))}-{_END}"
    async with subject.session() as session:
        await _repeats(session, survey, f"{_BEGIN}-1-2-3-{_END}")
        call, came = await _echo(session, survey, text)
    if came == text:
        seen = f"{len(text):,} characters in {len(call.stream.events) - 1} events, unchanged"
        return Evidence(call.stream.sent, seen)
    # A tool that shortens long texts cuts the end off, or puts something in place of what it leaves out.
    if not came or set(came) - set(text):
        raise NotSeen(f"the tool {call.tool!r} does not repeat a long text as it is: {call.stream.got}")
    raise call.stream.failed(f"{len(text):,} characters sent, {len(came):,} came back")


@rule(
    "ORS-056",
    "Any text comes through",
    "A result is UTF-8, and only line feeds and carriage returns end a line of the stream.",
    EVENT_STREAM,
)
async def any_text(subject: Subject, survey: Survey) -> Evidence:
    text = f"{_BEGIN} {_UNICODE} {_END}"
    async with subject.session() as session:
        await _repeats(session, survey, f"{_BEGIN} abc {_END}")
        call, came = await _echo(session, survey, text)
    if came == text:
        return call.stream.evidence
    if came in _mangled(text) or "\ufffd" in came:
        raise call.stream.failed("the text came back in another encoding")
    raise NotSeen(f"the tool {call.tool!r} does not repeat such a text as it is: {call.stream.got}")


async def _repeats(session: Session, survey: Survey, text: str) -> None:
    """Tell a tool that changes such text itself from a stream that does.

    Raises:
        NotSeen: the tool does not repeat even a short text, which fits one event, as it is.
    """
    call, came = await _echo(session, survey, text)
    if came != text:
        raise NotSeen(f"the tool {call.tool!r} does not repeat a short text as it is: {call.stream.got}")


async def _echo(session: Session, survey: Survey, text: str) -> tuple[Call, str]:
    """Have a tool repeat a text; return what came back, from its first word to its last, "" where one of them is gone.

    Raises:
        NotSeen: there is no such tool, or it refuses this text.
        Failed: the result has become something that is no JSON.
    """
    if survey.echoing is None:
        raise NotSeen(survey.problem or "no tool's result repeats a text that it was given")
    tool, arguments, name = survey.echoing
    call = await session.call(tool, {**arguments, name: text})
    if call.stream.error is not None or call.outcome.get("ok") is False:
        raise NotSeen(f"the tool {tool!r} does not take such a text: {call.stream.got}")
    if not call.outcome:
        raise call.stream.failed("the joined data is no JSON object")
    _, begin, rest = call.text.partition(_BEGIN)
    inside, end, _ = rest.partition(_END)
    return call, f"{begin}{inside}{end}" if begin and end else ""


def _mangled(text: str) -> set[str]:
    sent = text.encode()
    return {
        text.encode("ascii", "replace").decode(),
        text.encode("ascii", "ignore").decode(),
        text.encode("latin-1", "replace").decode("latin-1"),
        sent.decode("latin-1"),
        sent.decode("cp1252", "replace"),
    }


RULES = (white_space, long_result, any_text)
