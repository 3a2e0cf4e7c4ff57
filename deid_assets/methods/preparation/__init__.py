"""Who and what may be released: pseudonyms, removal, the random sample, groups and top codes."""
