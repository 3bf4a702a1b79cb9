"""One server of the sql environment for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import serve


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serve("sql") as base:
        yield base
