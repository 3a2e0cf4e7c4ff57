"""Rules across sections: what a policy must keep for its gates to mean something."""
