"""What a release discloses beyond identity: attributes, membership, absence."""
