"""The adversary's knowledge: how varied the values of a member are, and how many of them are known."""
