"""Functions of elements.

pardo.py              ParDo: DoFns applied to each element, and the handling of their exceptions
argument_types.py     types of functions' arguments and side inputs
side_input_panes.py   the panes that a view of a side input shows
map_and_filter.py     Map, FlatMap, Filter, MapTuple, FlatMapTuple: functions of elements
async_map.py          AsyncMap: async functions of elements, with timeouts, retries and rate limits
filled_collections.py warnings of Map(list.append) and DoFns that do the same, which fill a copy of the list
splittable_par_do.py  ParDo of a splittable DoFn
runtime_type_check.py checks of elements against type hints
"""
