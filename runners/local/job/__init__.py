"""A job: the run of a stream, from its first start over restarts to its end.

`job` starts one attempt after the other, as its `delivery` says.  An attempt runs from a start of the workers to their
end, and takes the checkpoints.  `regional_attempt` restarts a failover region while the others go on.
"""
