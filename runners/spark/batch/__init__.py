"""Batch runs on Spark: `segment_rdds` makes an RDD of each segment of the plan, whose tasks run the segment."""
