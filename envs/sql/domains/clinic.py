"""A medical clinic."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

CLINIC = Domain(
    "clinic",
    "a medical clinic: its departments, doctors, patients, visits and prescriptions",
    (
        Table("departments", "department", 10, (
            key(),
            name("name", "name", ("Central", "Family", "Night", "Day"),
                 ("Surgery", "Cardiology", "Paediatrics", "Radiology")),
            whole("beds", "number of beds", 4, 44),
            category("building", "building", "main", "annex", "tower"),
        )),
        Table("doctors", "doctor", 26, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            reference("departments", "department_id", "department"),
            category("grade", "grade", "junior", "senior", "consultant"),
            whole("experience", "experience in years", 1, 33),
        )),
        Table("patients", "patient", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            category("insurer", "insurer", "Alder", "Birch", "Cedar", nulls=0.2),
            whole("age", "age", 1, 89),
        )),
        Table("visits", "visit", 240, (
            key(),
            reference("doctors", "doctor_id", "doctor"),
            reference("patients", "patient_id", "patient"),
            category("reason", "reason", "check-up", "injury", "fever", "follow-up"),
            whole("minutes", "length in minutes", 5, 61),
            money("fee", "fee", 20, 180),
            day("visited_on", "visit date"),
            later("paid_on", "payment date", "visited_on", 0, 32, nulls=0.2),
        )),
        Table("prescriptions", "prescription", 120, (
            key(),
            reference("visits", "visit_id", "visit"),
            category("form", "form", "tablets", "syrup", "cream"),
            whole("doses", "number of doses", 1, 25),
            money("cost", "cost", 2, 66),
            day("issued_on", "issue date"),
        )),
    ),
)  # fmt: skip
