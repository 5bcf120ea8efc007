"""Pairs, groups and parts.

keys.py               Keys, Values, KvSwap, WithKeys: items of pairs, and pairs of values
secret.py             Secret: keys of the encryption of groups
group_by_encrypted_key.py GroupByEncryptedKey: groups that are encrypted while they are grouped
co_group_by_key.py    CoGroupByKey: several PCollections grouped by their keys
group_by.py           GroupBy, Select: grouping by fields, and selecting them
distinct.py           Distinct: each element once
partition.py          Partition: a PCollection split into several
"""
