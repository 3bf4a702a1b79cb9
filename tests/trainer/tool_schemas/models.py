"""Tool schemas as pydantic writes them."""

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

from tests.trainer.tool_schemas.case import Case, of_model

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

POINT = {"x": 1.5, "y": -2.0}
CASES: list[Case] = [
    of_model(Echo, text="Grüße, 日本 🐟 \u0000 \\ \" '"),
    of_model(NoArguments),
    of_model(Scalars, text="", count=2**70, share=1e-9, sure=False, nothing=None),
    of_model(Defaults, query="a"),
    of_model(Draw, segment={"start": POINT, "end": {"x": 1}}),
    of_model(Polygon, corners=[POINT, POINT], holes=[[POINT], []]),
    of_model(Paint, color="green"),
    of_model(Ticket, priority=9, others=[1, 9, 1]),
    of_model(Enums, mixed=2.5, maybe=None),
    of_model(Unions, value="1", several=[1, "a", True, False], deep={"": [1], "b": None}),
    of_model(Optionals, name=None, place=POINT),
    of_model(Adopt, pet={"kind": "cat", "lives": 9}, more=[{"kind": "dog", "tricks": []}]),
    Case(
        "EitherPet",
        EitherPet.model_json_schema(),
        {"kind": "dog", "tricks": ["sit"]},
        {"kind": True, "lives": False, "tricks": False},
    ),
    Case("WrappedPoint", WrappedPoint.model_json_schema(), POINT, {"x": True, "y": False}),
    of_model(Factories, options={"a": 1}),
    of_model(Times, day="2026-11-29", moment="2026-11-29T12:00:00Z", clock="12:00:00", duration="P1D"),
    of_model(
        Odd,
        identifier="12345678-1234-5678-1234-567812345678",
        price="10.50",
        raw="abc",
        url="https://example.com/",
        address="127.0.0.1",
        secret="x",
    ),
    of_model(Constrained, age=0, step=0.25, code="AB", names=["a"], maybe=None),
    of_model(Tree, root={"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}),
    of_model(Chain, {"value": True, "next": False}, value=1, next={"value": 2, "next": None}),
    of_model(Husband, {"wife": False}, wife={"husband": {"wife": None}}),
    Case(
        "Keywords",
        Keywords.model_json_schema(),
        {"from": "a", "class": 1, "self": 2, "return": "b", "None": "c"},
        {"from_": True, "class_": False, "self_": False, "return_": False, "None_": False},
    ),
    Case(
        "Aliases",
        Aliases.model_json_schema(),
        {"Content-Type": "text/html", "$ref": "#/x", "a.b": 2, "two words": 3, "2nd": 4, "": 5, "größe": "L"},
        {
            "Content_Type": True,
            "_ref": True,
            "a_b": False,
            "two_words": False,
            "_2nd": False,
            "_": False,
            "größe": False,
        },
    ),
    of_model(Tuples, pair=[1, "a"], single=[1], many=[1, 2, 3], nested=[POINT, [0.5, 1]]),
    of_model(Sets, unique=[3, 1], frozen=["a"]),
    of_model(Mappings, counts={"a": 1}, free={"a": {"b": [None]}}, by_number={"1": "a"}, by_color={"red": 1}),
    of_model(Literals, mode="read", level=3, mixed=True, constant="v1"),
    of_model(Anything, value={"a": [1, 2.0, None]}, items=["a", 1, None], untyped=[{}], mapping={"": 0}),
    of_model(Extras, name="b"),
    of_model(Open, name="a", surplus={"kept": True}),
    of_model(Computed, side=2.0),
    of_model(Pages, items=[POINT], cursor="next"),
    of_model(Titled, value="anything", Returns="b"),
    of_model(Deprecated, old="", new="\r\n"),
    of_model(Inherited, x=1.0, z=-0.0),
    of_model(Underscored, _private=1, __x__=2),
]
