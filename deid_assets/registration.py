"""Deliveries that were registered: what was received, from where, under which key."""

from pathlib import Path

from deid_assets.errors import DeliveryError
from deid_assets.home import Home
from deid_assets.release import durable
from deid_assets.sources.delivery import Delivery, plain_key


def delivery_file(home: Home, key: str) -> Path:
    """Where the record of a delivery lies."""
    return home.deliveries / f"{plain_key(key)}.json"


def register_delivery(home: Home, delivery: Delivery) -> None:
    """Keep the record of a delivery; owner-only, because file names may tell about persons.

    Raises
    ------
    DeliveryError
        If another delivery was registered under the key.
    """
    file = delivery_file(home, delivery.key)
    text = delivery.to_json()
    # Runs under other policies may register the same delivery at the same time.
    with durable.locked(home.deliveries / ".lock"):
        if not file.exists():
            durable.replace(file, text.encode(), 0o600)
        elif file.read_text() != text:
            raise DeliveryError(f"a different delivery is registered as {delivery.key}; give this one another key (--key)")


def registered_delivery(home: Home, key: str) -> Delivery:
    """The delivery that was registered under this key.

    Raises
    ------
    DeliveryError
        If none was.
    """
    file = delivery_file(home, key)
    if not file.exists():
        raise DeliveryError(f"no delivery is registered as {key}; `deid run --delivery PATH` registers it")
    return Delivery.from_json(file.read_text())
