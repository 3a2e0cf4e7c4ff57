"""Rules across sections: what a policy must satisfy for its gates to be meaningful."""
