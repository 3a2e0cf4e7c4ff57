"""The statistics: arrays, frames or table handles in; arrays, frozen values or a SELECT out. One file per method.

No module here knows of files, of policies or of Dagster.
"""
