"""A public library."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

LIBRARY = Domain(
    "library",
    "a public library: its branches, authors, books, members and loans",
    (
        Table("branches", "branch", 14, (
            key(),
            name("name", "name", ("North", "South", "East", "West", "Old Town"),
                 ("Square", "Bridge", "Station", "Park")),
            category("city", "city", *CITIES),
            whole("seats", "number of seats", 10, 58),
        )),
        Table("authors", "author", 28, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("country", "country", "Chile", "Ghana", "Japan", "Norway", nulls=0.1),
            whole("born", "year of birth", 1920, 1992),
        )),
        Table("books", "book", 60, (
            key(),
            name("title", "title", ("Silent", "Golden", "Broken", "Distant", "Hidden", "Winter", "Last", "Paper",
                 "Burning"), ("River", "Garden", "Letters", "Island", "Mirror", "Harbour", "Orchard", "Sky", "Door")),
            reference("authors", "author_id", "author"),
            category("genre", "genre", "novel", "poetry", "history", "science", "travel"),
            whole("pages", "number of pages", 80, 560),
            whole("copies", "number of copies", 1, 17),
        )),
        Table("members", "member", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            reference("branches", "branch_id", "home branch"),
            category("kind", "kind", "child", "adult", "senior", "student"),
            whole("age", "age", 8, 80),
            day("joined_on", "joining date"),
        )),
        Table("loans", "loan", 250, (
            key(),
            reference("books", "book_id", "book"),
            reference("members", "member_id", "member"),
            category("channel", "channel", "desk", "kiosk", "app"),
            money("fine", "fine", 0, 24, nulls=0.3),
            day("lent_on", "lending date"),
            later("returned_on", "return date", "lent_on", 1, 40, nulls=0.2),
        )),
    ),
)  # fmt: skip
