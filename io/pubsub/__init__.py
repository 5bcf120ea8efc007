"""Google Cloud Pub/Sub: `ReadFromPubSub` in `read`, `WriteToPubSub` in `write`.

`client` has the client's package, names of topics and subscriptions, and errors in words; `messages` has the elements;
`lease` keeps messages until checkpoints acknowledge them; `source` is the source.
"""
