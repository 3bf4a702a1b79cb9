"""A small airline."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

FLIGHTS = Domain(
    "flights",
    "a small airline: its airports, aircraft, flights, passengers and bookings",
    (
        Table("airports", "airport", 16, (
            key(),
            name("name", "name", ("Lake", "Coast", "Hill", "Forest", "River"),
                 ("Airfield", "International", "Regional", "Terminal")),
            category("country", "country", "Austria", "Greece", "Iceland", "Spain"),
            whole("gates", "number of gates", 2, 34),
        )),
        Table("aircraft", "aircraft", 18, (
            key(),
            name("model", "model", ("Heron", "Falcon", "Swift", "Albatross", "Kite"),
                 ("100", "200", "300", "400", "500")),
            category("maker", "maker", "Aerion", "Borealis", "Cirra"),
            whole("seats", "number of seats", 40, 220),
        )),
        Table("flights", "flight", 150, (
            key(),
            reference("airports", "airport_id", "destination"),
            reference("aircraft", "aircraft_id", "aircraft"),
            category("status", "status", "on time", "delayed", "cancelled", "diverted"),
            whole("delay", "delay in minutes", 0, 56, nulls=0.1),
            whole("distance", "distance in km", 200, 2600),
            day("departed_on", "departure date"),
        )),
        Table("passengers", "passenger", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            category("card", "frequent flyer card", "blue", "silver", "gold", nulls=0.3),
            whole("age", "age", 2, 82),
        )),
        Table("bookings", "booking", 240, (
            key(),
            reference("flights", "flight_id", "flight"),
            reference("passengers", "passenger_id", "passenger"),
            category("cabin", "cabin", "economy", "business", "first"),
            money("price", "price", 30, 510),
            whole("bags", "number of bags", 0, 8),
            day("booked_on", "booking date"),
            later("paid_on", "payment date", "booked_on", 0, 24, nulls=0.15),
        )),
    ),
)  # fmt: skip
