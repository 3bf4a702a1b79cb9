"""A gym."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

GYM = Domain(
    "gym",
    "a gym: its trainers, classes, members, attendances and payments",
    (
        Table("trainers", "trainer", 18, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("speciality", "speciality", "strength", "yoga", "swimming", "boxing"),
            whole("experience", "experience in years", 1, 25),
            money("rate", "hourly rate", 18, 66),
        )),
        Table("classes", "class", 32, (
            key(),
            name("title", "title", ("Morning", "Power", "Gentle", "Evening", "Express", "Deep"),
                 ("Flow", "Circuit", "Laps", "Spin", "Stretch", "Rounds")),
            reference("trainers", "trainer_id", "trainer"),
            category("weekday", "weekday", "Monday", "Tuesday", "Thursday", "Saturday"),
            whole("places", "number of places", 6, 38),
            whole("minutes", "length in minutes", 20, 92),
        )),
        Table("members", "member", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            category("plan", "plan", "off-peak", "standard", "premium"),
            whole("age", "age", 16, 72),
            day("joined_on", "joining date"),
            later("quit_on", "leaving date", "joined_on", 20, 84, nulls=0.5),
        )),
        Table("attendances", "attendance", 250, (
            key(),
            reference("classes", "class_id", "class"),
            reference("members", "member_id", "member"),
            category("entry", "entry", "card", "phone", "desk"),
            whole("calories", "number of calories", 100, 740, nulls=0.15),
            day("attended_on", "attendance date"),
        )),
        Table("payments", "payment", 160, (
            key(),
            reference("members", "member_id", "member"),
            category("method", "method", "card", "transfer", "cash"),
            money("amount", "amount", 15, 95),
            day("due_on", "due date"),
            later("paid_on", "payment date", "due_on", 0, 30, nulls=0.2),
        )),
    ),
)  # fmt: skip
