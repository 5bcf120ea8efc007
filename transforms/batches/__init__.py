"""Batches of elements.

batch_elements.py     BatchElements: lists of adaptive size
buffered_batches.py   ... buffered from one bundle to the next
sort_and_batch.py     SortAndBatchElements: lists of elements of similar size
group_into_batches.py GroupIntoBatches: lists of each key's values
length_bucket.py      WithLengthBucketKey: elements of similar length under one key
"""
