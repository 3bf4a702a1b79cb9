"""`ors-env`: make, serve, check and push environments. Each verb imports what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from envs import catalog, output

_USAGE = 2  # exit status for a command line that makes no sense


class UsageError(Exception):
    """What was asked for cannot be done; the message is one line for a person."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status: 0 done, 1 failed, with one line on standard error that says why.

    A command line that makes no sense ends the program with status 2 and one line.
    """
    output.prepare()
    try:
        try:
            return _run(_parser().parse_args(argv))
        finally:
            sys.stdout.flush()
    except output.OutputError as error:
        output.abandon()
        if str(error):
            print(f"ors-env: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    # Read by the SDK when it is imported: no question to a package index, no line a request.
    os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("OPENREWARD_LOG_LEVEL", "WARNING")
    try:
        status: int = arguments.run(arguments)
    except KeyboardInterrupt:  # before a server is up; one that runs ends in its own good order
        return 130
    except output.OutputError:
        raise
    except Exception as error:
        if arguments.debug:
            traceback.print_exc()
        print(f"ors-env: {_told(error)}", file=sys.stderr)
        return 1
    return status


def _told(error: Exception) -> str:
    if isinstance(error, UsageError | catalog.CatalogError):
        return str(error)
    # Nothing that the verb foresaw: the last place in the code is all that can be said without the traceback.
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    return f"{reason} ({Path(place.filename).name}:{place.lineno}; --debug shows the traceback)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}; {self.prog} --help says more\n")


def _parser() -> _Parser:
    parser = _Parser(prog="ors-env", description="Make, serve, check and push environments.")
    shared = _Parser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    shown = _verb(verbs, shared, "list", "show the environments with their splits and tools", "ors-env list --json")
    shown.add_argument("--json", action="store_true", help="print one JSON document")
    shown.set_defaults(run=_list)

    served = _verb(verbs, shared, "serve", "serve environments over HTTP", "ors-env serve echo --port 8000")
    served.add_argument("names", nargs="+", metavar="NAME", help="environments of one server; the first is its default")
    served.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    served.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (default: $PORT or 8000)")
    served.add_argument("--reload", action="store_true", help="start again whenever a file of the environments changes")
    served.set_defaults(run=_serve)

    made = _verb(verbs, shared, "new", "make an environment to start from", "ors-env new counting")
    made.add_argument("name", metavar="NAME", help="of the environment and its folder: lower-case letters, digits, _")
    made.add_argument(
        "--into", type=Path, metavar="DIR", help="make DIR/NAME, for folders in $ORS_ENVS_PATH (default: envs/)"
    )
    made.set_defaults(run=_new)

    checked = _verb(
        verbs,
        shared,
        "check",
        "check a server against the standard, rule by rule",
        "ors-env check http://127.0.0.1:8000",
    )
    checked.add_argument("url", metavar="URL", help="any server of the Open Reward Standard, in any language")
    checked.add_argument(
        "--env", action="append", metavar="NAME", help="check this environment only; may be given again (default: all)"
    )
    checked.add_argument("--api-key", metavar="KEY", help="sent in X-API-Key, never shown")
    checked.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="sent with every request to this server and to no other, its value never shown; may be given again",
    )
    checked.add_argument(
        "--hf-token",
        metavar="TOKEN",
        help="for a private Space: short for --header 'Authorization: Bearer TOKEN'; none is sent unless given",
    )
    checked.add_argument("--json", action="store_true", help="print one JSON document")
    checked.set_defaults(run=_check)

    pushed = _verb(
        verbs, shared, "push", "serve an environment as a Hugging Face Space", "ors-env push echo --space OWNER/echo"
    )
    pushed.add_argument("name", metavar="NAME", help="environment")
    pushed.add_argument("--space", required=True, type=_space, metavar="OWNER/NAME", help="Space to create or update")
    pushed.add_argument("--private", action="store_true", help="only its owner sees the Space")
    pushed.add_argument(
        "--key-secret", action="store_true", help="ask for the key in $ENV_API_KEY, kept as a secret of the Space"
    )
    pushed.add_argument("--dry-run", action="store_true", help="write the folder, show what would go, send nothing")
    pushed.add_argument(
        "--wait",
        type=_seconds,
        default=900.0,
        metavar="SECONDS",
        help="for the build, and for the first answer (default: %(default)g)",
    )
    pushed.set_defaults(run=_push)
    return parser


def _verb(
    verbs: argparse._SubParsersAction[_Parser],
    shared: _Parser,
    name: str,
    purpose: str,
    example: str,
) -> _Parser:
    description = f"{purpose[0].upper()}{purpose[1:]}."
    return verbs.add_parser(name, help=purpose, description=description, epilog=f"example: {example}", parents=[shared])


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _seconds(text: str) -> float:
    from envs.server.settings import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _list(arguments: argparse.Namespace) -> int:
    from envs import listing

    return listing.show(catalog.names(), as_json=arguments.json)


def _serve(arguments: argparse.Namespace) -> int:
    from envs import serving

    port = arguments.port
    if port is None:
        try:
            port = _port(os.environ.get("PORT") or "8000")
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"PORT: {error}") from error
    repeated = sorted({name for name in arguments.names if arguments.names.count(name) > 1})
    if repeated:
        raise UsageError(f"named twice: {', '.join(repeated)}")
    for name in arguments.names:
        catalog.folder(name)
    try:
        if arguments.reload:
            from envs import reloading

            reloading.serve(arguments.names, arguments.host, port, debug=arguments.debug)
        else:
            serving.serve(arguments.names, arguments.host, port)
    except serving.ServingError as error:
        raise UsageError(str(error)) from error
    return 0


def _new(arguments: argparse.Namespace) -> int:
    from envs import new

    try:
        return new.run(arguments.name, arguments.into)
    except new.NewError as error:
        raise UsageError(str(error)) from error


def _space(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not OWNER/NAME")
    return text


def _push(arguments: argparse.Namespace) -> int:
    from envs import push, space

    catalog.folder(arguments.name)
    try:
        if arguments.dry_run:
            return push.dry_run(arguments.name, arguments.space)
        return push.run(
            arguments.name,
            arguments.space,
            private=arguments.private,
            with_key=arguments.key_secret,
            wait=arguments.wait,
        )
    except (push.PushError, space.SpaceError) as error:
        raise UsageError(str(error)) from error


def _check(arguments: argparse.Namespace) -> int:
    from envs.check import command
    from envs.check.headers import HeaderError, parse
    from envs.check.runner import CheckError

    try:
        headers = parse(arguments.header, arguments.hf_token)
        return command.run(arguments.url, arguments.env, arguments.api_key, headers, as_json=arguments.json)
    except (CheckError, HeaderError) as error:
        raise UsageError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
