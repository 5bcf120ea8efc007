"""MQTT: `ReadFromMqtt` in `read`, `WriteToMqtt` in `write`.

`client` connects and explains errors; `session` keeps the messages of a session until checkpoints acknowledge them;
`source` and `bounded` are the sources.
"""
