"""A museum. No training task is about it."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

MUSEUM = Domain(
    "museum",
    "a museum: its artists, artworks, exhibitions, visitors, tours and restorations",
    (
        Table("artists", "artist", 30, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("country", "country", "Egypt", "Italy", "Mexico", "Sweden", nulls=0.1),
            whole("born", "year of birth", 1850, 1994),
        )),
        Table("artworks", "artwork", 55, (
            key(),
            name("title", "title", ("Blue", "Sleeping", "Lonely", "Dancing", "Marble", "Ancient", "Pale", "Wild"),
                 ("Horse", "Queen", "Harvest", "Storm", "Fountain", "Child", "Valley", "Moon")),
            reference("artists", "artist_id", "artist"),
            category("technique", "technique", "oil", "bronze", "print", "photo"),
            whole("height", "height in cm", 10, 250),
            money("value", "insured value in thousands", 1, 161),
        )),
        Table("exhibitions", "exhibition", 16, (
            key(),
            name("title", "title", ("Light", "Stone", "Water", "Colour", "Time"),
                 ("Now", "Forever", "Revisited", "Unbound")),
            category("wing", "wing", "north", "south", "modern"),
            money("fee", "entrance fee", 4, 28),
            day("opened_on", "opening date"),
            later("closed_on", "closing date", "opened_on", 20, 100, nulls=0.1),
        )),
        Table("visitors", "visitor", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            whole("age", "age", 6, 86),
        )),
        Table("tours", "tour", 240, (
            key(),
            reference("exhibitions", "exhibition_id", "exhibition"),
            reference("visitors", "visitor_id", "visitor"),
            category("language", "language", "English", "Spanish", "Arabic"),
            whole("minutes", "length in minutes", 20, 100),
            money("donation", "donation", 0, 40, nulls=0.3),
            day("toured_on", "tour date"),
        )),
        Table("restorations", "restoration", 110, (
            key(),
            reference("artworks", "artwork_id", "artwork"),
            category("damage", "damage", "crack", "fading", "dust", "water"),
            money("cost", "cost", 100, 1380),
            day("begun_on", "start date"),
            later("done_on", "completion date", "begun_on", 5, 61, nulls=0.2),
        )),
    ),
)  # fmt: skip
