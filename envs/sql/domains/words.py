"""Words that names in several domains are put together from."""

FIRST_NAMES = (
    "Ada", "Amir", "Bea", "Carl", "Chloe", "Dana", "Elif", "Emil", "Fatima", "Felix", "Grace", "Hana", "Ivan", "Jonas",
    "Kira", "Leo", "Lina", "Malik", "Maya", "Nils", "Nora", "Omar", "Petra", "Quinn", "Rosa", "Sami", "Tara", "Tomas",
    "Vera", "Yusuf",
)  # fmt: skip
LAST_NAMES = (
    "Abbott", "Baker", "Castro", "Dietz", "Evans", "Fischer", "Gruber", "Haddad", "Ito", "Jansen", "Kaya", "Lopez",
    "Moreau", "Novak", "Olsen", "Park", "Quist", "Rossi", "Silva", "Tanaka", "Usman", "Vogel", "Weber", "Young",
    "Zeman",
)  # fmt: skip
CITIES = ("Bergen", "Leeds", "Lyon", "Porto", "Turin")
