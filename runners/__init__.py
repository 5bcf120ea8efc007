"""What runs a graph.

execution/   what every runner shares: stages, the window operator, side inputs
local/       in this process
spark/       on Spark
"""
