"""The businesses that questions are about."""

from envs.sql.domains.cinema import CINEMA
from envs.sql.domains.clinic import CLINIC
from envs.sql.domains.flights import FLIGHTS
from envs.sql.domains.garage import GARAGE
from envs.sql.domains.gym import GYM
from envs.sql.domains.hotel import HOTEL
from envs.sql.domains.library import LIBRARY
from envs.sql.domains.museum import MUSEUM
from envs.sql.domains.school import SCHOOL
from envs.sql.domains.shop import SHOP

SEEN = (SHOP, LIBRARY, CLINIC, SCHOOL, FLIGHTS, HOTEL, GYM, CINEMA)
UNSEEN = (GARAGE, MUSEUM)
"""Only the test split asks about these."""

DOMAINS = {domain.name: domain for domain in (*SEEN, *UNSEEN)}
