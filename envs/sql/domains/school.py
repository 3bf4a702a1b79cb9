"""A school."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

SCHOOL = Domain(
    "school",
    "an evening school: its teachers, courses, students, enrolments and exams",
    (
        Table("teachers", "teacher", 20, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("subject", "subject", "languages", "computing", "music", "crafts"),
            money("salary", "monthly salary", 1600, 4000),
            day("hired_on", "hiring date"),
        )),
        Table("courses", "course", 36, (
            key(),
            name("title", "title", ("Basic", "Advanced", "Weekend", "Intensive", "Practical", "Modern"),
                 ("Spanish", "Python", "Guitar", "Pottery", "Design", "Writing", "Drawing", "Statistics")),
            reference("teachers", "teacher_id", "teacher"),
            category("room", "room", "A1", "A2", "B1", "B2", nulls=0.1),
            whole("hours", "number of hours", 10, 58),
            money("price", "price", 60, 380),
        )),
        Table("students", "student", 50, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            whole("age", "age", 16, 72),
        )),
        Table("enrolments", "enrolment", 230, (
            key(),
            reference("students", "student_id", "student"),
            reference("courses", "course_id", "course"),
            category("status", "status", "active", "completed", "dropped"),
            money("discount", "discount", 0, 48, nulls=0.25),
            day("started_on", "start date"),
            later("ended_on", "end date", "started_on", 10, 60, nulls=0.2),
        )),
        Table("exams", "exam", 170, (
            key(),
            reference("students", "student_id", "student"),
            reference("courses", "course_id", "course"),
            category("form", "form", "written", "oral", "project"),
            whole("points", "number of points", 20, 100),
            day("taken_on", "exam date"),
        )),
    ),
)  # fmt: skip
