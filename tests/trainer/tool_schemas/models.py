"""Arguments of tools as pydantic models, which is how an ORS server takes them."""

import enum
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    StringConstraints,
    computed_field,
    create_model,
    field_validator,
)

Item = TypeVar("Item")


class Color(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 9


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 2
    FRACTION = 2.5
    NOTHING = None


class OneMember(enum.Enum):
    ONLY = "only"


class Point(BaseModel):
    """A place on the board."""

    x: float = Field(description="to the right, in metres")
    y: float = 0.0


class Segment(BaseModel):
    start: Point
    end: Point


class Echo(BaseModel):
    """Say a text."""

    text: str


class NoArguments(BaseModel):
    """Wait for the next event."""


class Scalars(BaseModel):
    """Take one of each."""

    text: str
    count: int
    share: float
    sure: bool
    nothing: None


class Defaults(BaseModel):
    """Search."""

    query: str
    limit: int = 10
    exact: bool = False
    language: str = "en"
    ratio: float = 0.5


class Draw(BaseModel):
    """Draw a line."""

    segment: Segment
    width: int = 1


class Polygon(BaseModel):
    corners: list[Point]
    holes: list[list[Point]] = []


class Paint(BaseModel):
    color: Color
    background: Color = Color.RED


class Ticket(BaseModel):
    priority: Priority
    others: list[Priority] = []


class Enums(BaseModel):
    mixed: Mixed
    single: OneMember = OneMember.ONLY
    maybe: Mixed | Color | None = None


class Unions(BaseModel):
    value: int | str
    several: list[int | str | bool]
    deep: dict[str, list[int] | None]


class Optionals(BaseModel):
    name: str | None
    size: int | None = None
    place: Point | None = None
    tags: list[str] | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Adopt(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")
    more: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []


class EitherPet(RootModel[Cat | Dog]):
    pass


class WrappedPoint(RootModel[Point]):
    pass


class Factories(BaseModel):
    tags: list[str] = Field(default_factory=list)
    options: dict[str, int] = Field(default_factory=dict)
    place: Point = Field(default_factory=lambda: Point(x=1))
    stamp: datetime = Field(default_factory=lambda: datetime(2026, 1, 1))


class Times(BaseModel):
    day: date
    moment: datetime
    clock: time
    duration: timedelta
    maybe: date | None = None


class Odd(BaseModel):
    identifier: UUID
    price: Decimal
    raw: bytes
    encoded: Base64Bytes = b""
    path: Path = Path("data")
    url: AnyUrl
    address: IPv4Address
    secret: SecretStr


class Constrained(BaseModel):
    age: int = Field(ge=0, le=150)
    step: float = Field(gt=0, lt=1, multiple_of=0.25)
    code: str = Field(min_length=2, max_length=4, pattern=r"^[A-Z]+$")
    names: list[Annotated[str, StringConstraints(min_length=1)]] = Field(min_length=1, max_length=3)
    maybe: Annotated[int, Field(ge=1)] | None = None


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Tree(BaseModel):
    """Replace the tree."""

    root: Node
    depth: int = 3


class Chain(BaseModel):
    """Recursive in itself."""

    value: int
    next: "Chain | None" = None


class Husband(BaseModel):
    wife: "Wife | None" = None


class Wife(BaseModel):
    husband: "Husband | None" = None


class Keywords(BaseModel):
    from_: str = Field(alias="from")
    class_: int = Field(0, alias="class")
    self_: int = Field(0, alias="self")
    return_: str = Field("", alias="return")
    none_: str = Field("", alias="None")


class Aliases(BaseModel):
    content_type: str = Field(alias="Content-Type")
    dollar: str = Field(alias="$ref")
    dotted: int = Field(1, alias="a.b")
    spaced: int = Field(1, alias="two words")
    digit: int = Field(1, alias="2nd")
    empty: int = Field(1, alias="")
    accent: str = Field("", alias="größe")


class Tuples(BaseModel):
    pair: tuple[int, str]
    single: tuple[int]
    many: tuple[int, ...]
    nested: tuple[Point, tuple[float, float]] | None = None


class Sets(BaseModel):
    unique: set[int]
    frozen: frozenset[str] = frozenset()


class Mappings(BaseModel):
    counts: dict[str, int]
    free: dict[str, Any]
    places: dict[str, Point] = {}
    by_number: dict[int, str] = {}
    by_color: dict[Color, int] = {}


class Literals(BaseModel):
    mode: Literal["read", "write"]
    level: Literal[1, 2, 3] = 1
    mixed: Literal["auto", 1, True, None] = None
    constant: Literal["v1"] = "v1"


class Anything(BaseModel):
    value: Any
    items: list[Any] = []
    untyped: list = []  # type: ignore[type-arg]
    mapping: dict = {}  # type: ignore[type-arg]


class Extras(BaseModel):
    """Strict about what it takes."""

    model_config = ConfigDict(
        extra="forbid", title="Something else", json_schema_extra={"examples": [{"name": "a"}], "x-order": 3}
    )
    name: str = Field(json_schema_extra={"x-widget": "text", "enumNames": ["A"]}, examples=["a", "b"])

    @field_validator("name")
    @classmethod
    def _not_empty(cls, name: str) -> str:
        return name or "a"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Computed(BaseModel):
    side: float

    @computed_field
    def area(self) -> float:
        return self.side**2


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    cursor: str | None = None


class Titled(BaseModel):
    """A docstring with a list.

    Args:
        value: the value (choices: one, two)

    Returns:
        nothing
    """

    value: str = Field(title="The value", description='Args: pick one (choices: ["a", "b"])')
    Returns: str = Field("", description="Raises: no")
    Args: str = Field("", description="")


class Deprecated(BaseModel):
    old: str = Field("", deprecated=True, description="not any more")
    new: str = Field("", description="line one\nname: line two\r\n\r\n    Returns:\n        x")


class Inherited(Point):
    z: float = 0.0


# pydantic wants these two under names that no class attribute can have.
Pages = Page[Point]
Pages.__name__ = "Pages"
Underscored = create_model("Underscored", private=(int, Field(alias="_private")), dunder=(int, Field(0, alias="__x__")))
