"""How many examples of a property are drawn: a quarter by default, all under the profile `many`.

    pytest -m hypothesis --hypothesis-profile many

runs all properties, of which continuous integration draws many. Seeds differ from run to run, so that the default
runs together draw as many, too.
"""

from hypothesis import settings

MANY = "many"
FEWEST = 25
settings.register_profile(MANY)


def of(many: int) -> int:
    """Return how many examples to draw of a property that deserves `many`."""
    return many if settings.get_current_profile_name() == MANY else max(many // 4, min(many, FEWEST))
