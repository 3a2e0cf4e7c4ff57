"""The journal of a home: what it decided, append-only, chained by hashes and signed, and what it is compared with."""
