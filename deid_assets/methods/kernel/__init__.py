"""The node computation: random draws of an adversary's knowledge, and the number of members who match them."""
