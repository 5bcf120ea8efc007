"""Calls of services.

request_response.py   RequestResponseIO: the answers of a service, with throttling and repeats
response_caches.py    caches of answers, in memory and in Redis
"""
