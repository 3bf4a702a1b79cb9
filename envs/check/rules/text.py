"""Text comes through unchanged: tried with a tool whose result repeats its argument, so what should come is known."""

from __future__ import annotations

from envs.check.rule import EVENT_STREAM, EVENTS, Evidence, Failed, NotSeen, rule
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
        await _unchanged(session, survey, f"{_BEGIN} a  b\n    c\t{_END}")
        call = await _echo(session, survey, text)
    if _BEGIN not in call.text or _END not in call.text:
        raise NotSeen(f"of a long text not all came back (ORS-055): {call.stream.got}")
    if text not in call.text:
        raise Failed(
            call.stream.sent, f"{len(text):,} characters sent, {_between(call.text):,} came back: {call.stream.got}"
        )
    return Evidence(call.stream.sent, f"{len(text):,} characters, unchanged")


@rule(
    "ORS-055",
    "A long result comes through",
    "A result longer than 4,096 characters comes as several events and is whole when they are joined.",
    EVENTS,
)
async def long_result(subject: Subject, survey: Survey) -> Evidence:
    text = f"{_BEGIN}-{'-'.join(str(number) for number in range(_LONG // 4))}-{_END}"
    async with subject.session() as session:
        await _unchanged(session, survey, f"{_BEGIN}-1-2-3-{_END}")
        call = await _echo(session, survey, text)
    if text not in call.text:
        raise Failed(
            call.stream.sent, f"{len(text):,} characters sent, {len(call.text):,} came back: {call.stream.got}"
        )
    return Evidence(call.stream.sent, f"{len(text):,} characters in {len(call.stream.events) - 1} events, unchanged")


@rule(
    "ORS-056",
    "Any text comes through",
    "A result is UTF-8, and only line feeds and carriage returns end a line of the stream.",
    EVENT_STREAM,
)
async def any_text(subject: Subject, survey: Survey) -> Evidence:
    text = f"{_BEGIN} {_UNICODE} {_END}"
    async with subject.session() as session:
        await _unchanged(session, survey, f"{_BEGIN} abc {_END}")
        call = await _echo(session, survey, text)
    if text not in call.text:
        raise call.stream.failed("the text came back changed")
    return call.stream.evidence


async def _unchanged(session: Session, survey: Survey, text: str) -> None:
    """Tell a tool that changes such text itself from a stream that does.

    Raises:
        NotSeen: the tool does not repeat even a short text, which fits one event, as it is.
    """
    call = await _echo(session, survey, text)
    if text not in call.text:
        raise NotSeen(f"the tool {call.tool!r} does not repeat a short text as it is: {call.stream.got}")


async def _echo(session: Session, survey: Survey, text: str) -> Call:
    if survey.echoing is None:
        raise NotSeen(survey.problem or "no tool's result repeats a text that it was given")
    tool, arguments, name = survey.echoing
    return await session.call(tool, {**arguments, name: text})


def _between(text: str) -> int:
    return text.index(_END) + len(_END) - text.index(_BEGIN)


RULES = (white_space, long_result, any_text)
