"""What others can see of a running job: its health, for supervisors and service managers, and its metrics.

`health` judges, `health_port` and `service_manager` tell; `prometheus` serves metrics.
"""
