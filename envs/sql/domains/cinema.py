"""A cinema."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

CINEMA = Domain(
    "cinema",
    "a group of cinemas: their halls, films, screenings, customers and tickets",
    (
        Table("halls", "hall", 14, (
            key(),
            name("name", "name", ("Red", "Silver", "Velvet", "Star"), ("Hall", "Room", "Stage", "Box")),
            category("city", "city", *CITIES),
            whole("seats", "number of seats", 40, 280),
        )),
        Table("films", "film", 40, (
            key(),
            name("title", "title", ("Midnight", "Crimson", "Endless", "Secret", "Electric", "Falling", "Seventh"),
                 ("Train", "Summer", "Witness", "Planet", "Promise", "Shadow", "Dance")),
            category("genre", "genre", "comedy", "drama", "thriller", "animation"),
            whole("minutes", "length in minutes", 75, 187),
            money("budget", "budget in millions", 1, 97),
            day("released_on", "release date"),
        )),
        Table("screenings", "screening", 150, (
            key(),
            reference("films", "film_id", "film"),
            reference("halls", "hall_id", "hall"),
            category("version", "version", "dubbed", "subtitled", "original"),
            whole("sold", "number of tickets sold", 0, 80),
            day("shown_on", "screening date"),
        )),
        Table("customers", "customer", 45, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("club", "club", "student", "senior", "family", nulls=0.25),
            whole("age", "age", 10, 74),
        )),
        Table("tickets", "ticket", 250, (
            key(),
            reference("screenings", "screening_id", "screening"),
            reference("customers", "customer_id", "customer"),
            category("seat", "seat", "front", "middle", "back", "balcony"),
            money("price", "price", 6, 30),
            day("bought_on", "purchase date"),
            later("used_on", "admission date", "bought_on", 0, 21, nulls=0.15),
        )),
    ),
)  # fmt: skip
