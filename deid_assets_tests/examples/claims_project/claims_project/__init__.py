"""A project with a warehouse, a release of it, and a reader of the release."""
