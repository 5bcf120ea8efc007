"""A shop: orders of PostgreSQL, payments of Kafka, prices of a web service; a table of Iceberg and a dashboard.

    orders (PostgreSQL's log) ─ Enrichment (HTTP) ─┐
                                                   ├─ by order ─┬─ lake: shop.orders (Iceberg)
    payments (Kafka, as Debezium writes them) ─────┘            └─ by category ─ dashboard (PostgreSQL)

Orders are changed and cancelled, and payments are corrected and withdrawn: all results follow.  `make shop` starts the
servers and runs it for a while; `make shop_kills` kills parts of it meanwhile (`tests/shop`).

application.py  the pipeline
prices.py       the web service that knows the category and the price of each item
day.py          what happens in the shop, and what the tables have to be then
"""
