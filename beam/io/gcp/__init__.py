"""Beam's names for services of Google Cloud.

bigquery.py          WriteToBigQuery with Beam's parameters, and its constants
bigquery_schemas.py  tables and schemas of BigQuery as plain values, and functions of them
bigquery_rows.py     rows of BigQuery as lines of JSON and records of Avro
service_values.py    values of Beam's transforms for BigQuery
gcs.py               GcsIO: operations on objects of Google Cloud Storage
pubsub.py            ReadFromPubSub of several topics and subscriptions
"""
