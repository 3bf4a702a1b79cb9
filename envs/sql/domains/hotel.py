"""A chain of hotels."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

HOTEL = Domain(
    "hotel",
    "a chain of hotels: its houses, rooms, guests, stays and service charges",
    (
        Table("houses", "house", 12, (
            key(),
            name("name", "name", ("Grand", "Little", "Royal", "Seaside"), ("Anchor", "Palm", "Lantern", "Meadow")),
            category("city", "city", *CITIES),
            whole("floors", "number of floors", 2, 18),
        )),
        Table("rooms", "room", 48, (
            key(),
            name("code", "code", ("Amber", "Blue", "Coral", "Dune", "Ebony", "Fern", "Green", "Hazel"),
                 ("1", "2", "3", "4", "5", "6", "7", "8")),
            reference("houses", "house_id", "house"),
            category("kind", "kind", "single", "double", "suite", "family"),
            money("rate", "nightly rate", 40, 280),
            whole("beds", "number of beds", 1, 9),
        )),
        Table("guests", "guest", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("country", "country", "Brazil", "Canada", "India", "Kenya", "Poland"),
            category("tier", "loyalty tier", "bronze", "silver", "gold", nulls=0.25),
            whole("age", "age", 18, 82),
        )),
        Table("stays", "stay", 240, (
            key(),
            reference("rooms", "room_id", "room"),
            reference("guests", "guest_id", "guest"),
            category("channel", "channel", "website", "phone", "agency"),
            money("paid", "amount paid", 60, 900),
            whole("adults", "number of adults", 1, 9),
            day("arrived_on", "arrival date"),
            later("left_on", "departure date", "arrived_on", 1, 21, nulls=0.1),
        )),
        Table("charges", "charge", 140, (
            key(),
            reference("stays", "stay_id", "stay"),
            category("service", "service", "breakfast", "laundry", "parking", "spa"),
            money("amount", "amount", 4, 84),
            day("charged_on", "charge date"),
        )),
    ),
)  # fmt: skip
