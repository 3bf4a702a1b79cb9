"""A car repair garage. No training task is about it."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

GARAGE = Domain(
    "garage",
    "a car repair garage: its owners, cars, mechanics, repairs and parts",
    (
        Table("owners", "owner", 40, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            whole("age", "age", 18, 82),
        )),
        Table("cars", "car", 60, (
            key(),
            name("plate", "plate", ("AB", "CD", "EF", "GH", "KL", "MN", "PR", "ST"),
                 ("101", "117", "204", "263", "318", "355", "440", "482", "529", "690")),
            reference("owners", "owner_id", "owner"),
            category("fuel", "fuel", "petrol", "diesel", "electric", "hybrid"),
            whole("mileage", "mileage in thousand km", 1, 201),
        )),
        Table("mechanics", "mechanic", 16, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("skill", "skill", "engine", "brakes", "body", "electrics"),
            money("wage", "hourly wage", 16, 48),
        )),
        Table("repairs", "repair", 230, (
            key(),
            reference("cars", "car_id", "car"),
            reference("mechanics", "mechanic_id", "mechanic"),
            category("status", "status", "waiting", "running", "done", "refused"),
            whole("hours", "number of hours", 1, 25),
            money("bill", "bill", 50, 930),
            day("received_on", "reception date"),
            later("finished_on", "completion date", "received_on", 0, 20, nulls=0.2),
        )),
        Table("parts", "part", 150, (
            key(),
            reference("repairs", "repair_id", "repair"),
            category("kind", "kind", "filter", "tyre", "battery", "lamp", "belt"),
            whole("pieces", "number of pieces", 1, 9),
            money("cost", "cost", 3, 163),
            category("supplier", "supplier", "Autex", "Brevo", "Corda", nulls=0.2),
        )),
    ),
)  # fmt: skip
