"""Statistical methods, one file per method.

They take arrays, frames or table handles, and return arrays, frozen values or a SELECT. No module here depends on files,
policies or Dagster.
"""
