"""Which rollouts of a run a person is shown: a few from early on, a few from late, chosen the same way every time.

The rollouts pass by once and only marks are kept, a fixed number from each end, so a run of any length costs the same
memory. Within an end the marks are ordered by environment and reward and one is taken from each equal slice: successes,
failures and unscored rollouts appear as often as they happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from zlib import crc32

WINDOW = 256
_SHARE_OF_RUN = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a rollout is in its file, and what the choice looks at.

    Args:
        offset: of its line, in bytes.
        step: the training step it belongs to.
        group: environment, split and task: the rollouts of one task in a step share it.
        reward: None where it was not scored.
    """

    offset: int
    step: int
    environment: str
    group: Hashable
    reward: float | None


class Sampler:
    """Keeps the first and the last `WINDOW` marks of a stream."""

    def __init__(self) -> None:
        self.total = 0
        self._first: list[Mark] = []
        self._last: deque[Mark] = deque(maxlen=WINDOW)

    def add(self, mark: Mark) -> None:
        self.total += 1
        if len(self._first) < WINDOW:
            self._first.append(mark)
        self._last.append(mark)

    def choose(self, each: int) -> tuple[list[Mark], list[Mark]]:
        """Chooses up to `each` marks from the first fifth of the run and as many from the last, in file order.

        A short run is shown whole: its first half as early, its second as late; no rollout is in both.
        """
        width = min(WINDOW, max(each, self.total // _SHARE_OF_RUN))
        early = self._first[: min(width, (self.total + 1) // 2)]
        late_width = min(width, self.total - len(early))
        late = list(self._last)[len(self._last) - late_width :]
        return _spread(early, each), _spread(late, each)


def _spread(window: Sequence[Mark], count: int) -> list[Mark]:
    if len(window) <= count:
        return list(window)
    ordered = sorted(window, key=_order)
    chosen: list[Mark] = []
    groups: set[Hashable] = set()
    for place in range(count):
        part = ordered[place * len(ordered) // count : (place + 1) * len(ordered) // count]
        middle = part[len(part) // 2]
        alike = [mark for mark in part if (mark.environment, mark.reward) == (middle.environment, middle.reward)]
        mark = next((mark for mark in alike if mark.group not in groups), middle)
        groups.add(mark.group)
        chosen.append(mark)
    return sorted(chosen, key=lambda mark: mark.offset)


def _order(mark: Mark) -> tuple[str, bool, float, int]:
    # The checksum shuffles rollouts of equal reward, so that the choice is not the first group's alone.
    return mark.environment, mark.reward is not None, mark.reward or 0.0, crc32(mark.offset.to_bytes(8, "little"))
