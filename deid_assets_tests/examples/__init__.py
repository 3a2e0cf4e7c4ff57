"""How many examples of a property are drawn: an eighth by default but no fewer than five, all under the profile `many`.

    pytest -m hypothesis --hypothesis-profile many

runs all properties, of which continuous integration draws many. Seeds differ from run to run, so that the default
runs together draw as many, too.
"""

from hypothesis import settings

MANY, FEW = "many", "few"
FEWEST = 5


def of(many: int) -> int:
    """Return how many examples to draw of a property that deserves `many`."""
    return many if settings.get_current_profile_name() == MANY else max(many // 8, min(many, FEWEST))


settings.register_profile(MANY, max_examples=100, deadline=None)
settings.register_profile(FEW, max_examples=of(100), deadline=None)
settings.load_profile(FEW)  # pytest loads another one if the command line names it, before it imports the tests
