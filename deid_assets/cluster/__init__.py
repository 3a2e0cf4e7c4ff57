"""Run measurements of draws on the threads of this machine, or on the workers of a Dask cluster."""
