"""An online shop."""

from envs.sql.domains.words import CITIES, FIRST_NAMES, LAST_NAMES
from envs.sql.schema import Domain, Table, category, day, key, later, money, name, reference, whole

SHOP = Domain(
    "shop",
    "an online shop: its customers, products, orders and reviews",
    (
        Table("customers", "customer", 45, (
            key(),
            name("name", "name", FIRST_NAMES, LAST_NAMES),
            category("city", "city", *CITIES),
            category("membership", "membership", "basic", "silver", "gold", nulls=0.15),
            whole("age", "age", 18, 66),
        )),
        Table("products", "product", 40, (
            key(),
            name("name", "name", ("Oak", "Steel", "Linen", "Copper", "Glass", "Wool", "Cork", "Clay"),
                 ("Lamp", "Chair", "Shelf", "Bowl", "Rug", "Mirror", "Vase", "Clock")),
            category("category", "category", "kitchen", "living room", "office", "garden"),
            money("price", "price", 5, 165),
            whole("stock", "stock", 0, 48),
        )),
        Table("orders", "order", 240, (
            key(),
            reference("customers", "customer_id", "customer"),
            reference("products", "product_id", "product"),
            category("status", "status", "pending", "paid", "shipped", "cancelled"),
            whole("quantity", "quantity", 1, 17),
            money("amount", "amount", 10, 330),
            day("ordered_on", "order date"),
            later("delivered_on", "delivery date", "ordered_on", 1, 20, nulls=0.2),
        )),
        Table("reviews", "review", 130, (
            key(),
            reference("customers", "customer_id", "customer"),
            reference("products", "product_id", "product"),
            whole("stars", "star rating", 1, 9),
            category("language", "language", "English", "French", "German", "Italian"),
            day("written_on", "review date"),
        )),
    ),
)  # fmt: skip
