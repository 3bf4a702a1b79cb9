"""testcontainers' DockerCompose with what tests of a whole stack lack in it.

A project name of its own for each stack, so that tests never meet each other's containers; variables for the Compose
file; a wait that is bounded by the given time; the last lines each service said in the message of every failure, taken
before the containers are removed; and nothing left behind, also when a test is interrupted. Builds go through `docker
compose build`, because testcontainers' own image class uses the classic builder, which knows no `RUN --mount`.

The file stands alone: copy it into any project that has `testcontainers` installed.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType

# Ryuk, testcontainers' own reaper, is an image to pull and wants the engine's socket; `stop` does its work here.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

from testcontainers.compose import DockerCompose

LOG_LINES = 50


class StackError(Exception):
    """`docker compose` failed or took too long; the message ends with what runs and each service's last log lines."""


@dataclass
class Stack(DockerCompose):
    """The services of a Compose file, up and healthy for as long as the `with` block runs.

    DockerCompose's own `compose_file_name`, `env_file`, `profiles`, `build` and `keep_volumes` work as they do there.

    Args:
        context: the folder of the Compose file.
        services: those to start, with what they depend on; all of the active profiles where None.
        variables: environment variables for `docker compose`, over this process's own.
        seconds: the longest that starting may take, from created containers to healthy services.
        project: the Compose project's name.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 120.0
    project: str = field(default_factory=lambda: f"stack-{secrets.token_hex(4)}")

    @cached_property
    def compose_command_property(self) -> list[str]:
        return [*super().compose_command_property, "--project-name", self.project]

    def start(self) -> None:
        """Start the services and return when they are healthy.

        Raises:
            StackError: one of them ended, became unhealthy or was not healthy in time.
        """
        if self.build:
            self.build_images(*(self.services or []))
        wait = ["--wait", "--wait-timeout", str(round(self.seconds))]
        # Compose's own limit covers waiting, not creating; the second one covers a daemon that hangs.
        self.compose("up", *wait, *(self.services or []), seconds=self.seconds + 60)
        # Compose may say that all is well when its limit comes while it looks at a service.
        if waiting := [one.Service for one in self.get_containers() if one.Health not in (None, "", "healthy")]:
            raise StackError(f"not healthy in {self.seconds:.0f} s: {', '.join(map(str, waiting))}\n{self.story()}")

    def stop(self, down: bool = True) -> None:
        """Stop all services; remove containers, networks and volumes of the project unless `down` is False."""
        # Every profile, or a service that another profile started would stay.
        remove = ["down", "--volumes", "--remove-orphans"] if down else ["stop"]
        self.compose("--profile", "*", *remove, seconds=120)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None and not isinstance(exc, StackError):
            exc.add_note(self.story())
        super().__exit__(exc_type, exc, traceback)

    def build_images(self, *services: str, seconds: float = 1800) -> None:
        """Build the images of the services, of all in the active profiles where none is named."""
        self.compose("build", *services, seconds=seconds)

    def compose(self, *arguments: str, seconds: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one `docker compose` command for this stack; standard error is part of what `stdout` returns.

        Raises:
            StackError: it took longer than `seconds`, or it failed and `check` is set.
        """
        try:
            done = self._run(*arguments, seconds=seconds)
        except subprocess.TimeoutExpired:
            raise StackError(
                f"docker compose {' '.join(arguments)}: not done in {seconds:.0f} s\n{self.story()}"
            ) from None
        if check and done.returncode:
            said = f"docker compose {' '.join(arguments)}: exit status {done.returncode}\n{_last(done.stdout)}"
            raise StackError(f"{said}\n{self.story()}")
        return done

    def url(self, service: str, port: int = 8000) -> str:
        """Return the base URL at which the host reaches a service's published port."""
        host, published = self.get_service_host_and_port(service, port)
        return f"http://{host}:{published}"

    def story(self) -> str:
        """Return what runs and each service's last log lines; a Docker that fails here hides no earlier error."""
        parts = []
        for command in (["ps", "--all"], ["logs", "--no-color", "--timestamps", "--tail", str(LOG_LINES)]):
            try:
                parts.append(self._run("--profile", "*", *command, seconds=30).stdout)
            except (OSError, subprocess.SubprocessError) as error:
                parts.append(f"docker compose {command[0]}: {error}")
        return "\n".join(parts)

    def _run(self, *arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.compose_command_property, *arguments],
            cwd=self.context,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )

    def _run_command(self, cmd: str | list[str], context: str | None = None) -> subprocess.CompletedProcess[bytes]:
        # What testcontainers' own methods run has to see the same variables.
        return subprocess.run(
            cmd, cwd=context or self.context, env={**os.environ, **self.variables}, capture_output=True, check=True
        )


def _last(text: str) -> str:
    return "\n".join(text.splitlines()[-LOG_LINES:])
