"""The node computation: random draws of what an adversary knows, and how many members fit them."""
